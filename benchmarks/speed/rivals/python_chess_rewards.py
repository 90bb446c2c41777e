"""The rival of a rewarded ply: one python-chess board and python-chess's engine client, one query at a time.

This is how self-play with engine rewards is usually written first: the position after each move is sent to the
engine, and the program waits for the score. The reward is the change of the win probability.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import chess
import chess.engine

from benchmarks.speed.rivals.python_chess_loop import PythonChessLoop


def phi(score_cp: int) -> float:
    """2 Win% - 1 (lichess.org/page/accuracy)."""
    return 2 / (1 + math.exp(-0.00368208 * max(-10_000, min(10_000, score_cp)))) - 1


class PythonChessRewards:
    """Random self-play with a reward for each ply.

    Args:
        path: the engine.
        depth: of each query.
        pure: clear the engine before each query, as the client does for another game.
    """

    def __init__(self, path: Path, depth: int, *, pure: bool) -> None:
        self._engine = chess.engine.SimpleEngine.popen_uci(str(path))
        self._engine.configure({"Threads": 1, "Hash": 1})
        self._limit, self._pure = chess.engine.Limit(depth=depth), pure
        self._loop, self._rng = PythonChessLoop(), random.Random(0)
        self._before = self._score()

    def _score(self) -> int:
        """Centipawns from the side to move's view."""
        info = self._engine.analyse(
            self._loop.board, self._limit, game=object() if self._pure else None,
            info=chess.engine.INFO_SCORE,
        )  # fmt: skip
        score = info["score"].relative.score(mate_score=10_000)
        assert score is not None
        return score

    def play(self, plies: int) -> float:
        """The sum of the rewards of some plies."""
        total = 0.0
        for _ in range(plies):
            outcome, over = self._loop.step(int(self._rng.random() * len(self._loop.legal)))[2:]
            after = self._score()  # of the new game where one began
            total += outcome if over else phi(-after) - phi(self._before)
            self._before = after
        return total

    def engine_pid(self) -> int:
        """Process id of the engine."""
        pid: int = self._engine.transport.get_pid()
        return pid

    def close(self) -> None:
        """Ends the engine."""
        self._engine.quit()
