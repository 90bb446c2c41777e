"""The judge of obvious moves: Stockfish, with its history of the game, to a fixed depth.

Moves that are in doubt get an exact score each. Those that look wrong are searched together: the score of the best of
them bounds all, which is proof enough and a fraction of the work.
"""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import chess
import chess.engine

from chess_env.evaluators import MATE_SCORE, EngineError, find_stockfish
from chess_env.evaluators.uci import INSTALL_HINT

HASH_MB = 64


class Question(NamedTuple):
    """What the judge is asked of a board.

    Attributes:
        board: with the moves of its game on the stack.
        one_by_one: moves that get a score of their own.
        together: moves that get the score of the best of them.
    """

    board: chess.Board
    one_by_one: list[chess.Move]
    together: list[chess.Move]


class Judge:
    """Stockfish processes that search to a fixed depth, each question from cleared tables.

    Args:
        depth: of the searches, in plies.
        num_engines: how many questions are searched at a time; the answers do not depend on it.

    Raises:
        EngineError: no Stockfish is found.
    """

    def __init__(self, depth: int, num_engines: int) -> None:
        path = find_stockfish()
        if path is None:
            raise EngineError(f"No Stockfish found. {INSTALL_HINT}")
        self._depth = depth
        self._engines = [chess.engine.SimpleEngine.popen_uci(str(path)) for _ in range(num_engines)]
        self._free: queue.SimpleQueue[chess.engine.SimpleEngine] = queue.SimpleQueue()
        for engine in self._engines:
            engine.configure({"Hash": HASH_MB, "Threads": 1})
            self._free.put(engine)
        self._threads = ThreadPoolExecutor(num_engines)
        name = self._engines[0].id.get("name", path.name)
        self.id = f"{name}, depth {depth}, Hash {HASH_MB}, Threads 1"

    def close(self) -> None:
        """Ends the engines."""
        self._threads.shutdown()
        for engine in self._engines:
            engine.quit()

    def scores_cp(self, questions: Sequence[Question]) -> list[dict[chess.Move, int]]:
        """{move: centipawns, mover's view, mate in n +-(10000 - n)} of each question."""
        return list(self._threads.map(self._answer, questions))

    def _answer(self, question: Question) -> dict[chess.Move, int]:
        engine = self._free.get()
        try:
            scores = self._search(engine, question.board, question.one_by_one, lines=None)
            best = self._search(engine, question.board, question.together, lines=1)
            return scores | dict.fromkeys(question.together, max(best.values(), default=0))
        finally:
            self._free.put(engine)

    def _search(
        self,
        engine: chess.engine.SimpleEngine,
        board: chess.Board,
        moves: list[chess.Move],
        lines: int | None,
    ) -> dict[chess.Move, int]:
        if not moves:
            return {}
        found = engine.analyse(
            board,
            chess.engine.Limit(depth=self._depth),
            multipv=lines or len(moves),
            root_moves=moves,
            game=object(),  # another game than before: the tables are cleared
        )
        return {
            info["pv"][0]: info["score"].pov(board.turn).score(mate_score=MATE_SCORE)
            for info in found
        }
