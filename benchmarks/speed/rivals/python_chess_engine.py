"""The rival of the Stockfish pool: python-chess's engine client, driving the same engines by the same protocol.

Written as its documentation advises for speed: asyncio (the threaded `SimpleEngine` is slower), one task per
engine taking positions from one queue, only the score parsed (`INFO_SCORE`), one thread and 1 MB of hash per
engine, and a new `game` object per position, for which the client sends `ucinewgame` and waits for `readyok`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import chess
import chess.engine


class PythonChessClient:
    """Scores of boards from `num_engines` engines through `chess.engine.UciProtocol`, at a depth limit."""

    def __init__(self, path: Path, num_engines: int, depth: int) -> None:
        """Starts the engines."""
        self._loop = asyncio.new_event_loop()
        self._limit = chess.engine.Limit(depth=depth)
        self._engines = self._loop.run_until_complete(self._start(path, num_engines))

    @staticmethod
    async def _start(path: Path, num_engines: int) -> list[chess.engine.UciProtocol]:
        engines = []
        for _ in range(num_engines):
            _transport, engine = await chess.engine.popen_uci(str(path))
            await engine.configure({"Threads": 1, "Hash": 1})
            engines.append(engine)
        return engines

    def pids(self) -> list[int]:
        """Process ids of the engines."""
        return [engine.transport.get_pid() for engine in self._engines]  # type: ignore[union-attr]

    def evaluate(self, boards: Sequence[chess.Board]) -> list[int]:
        """Centipawns from the side to move's view; mate in n is +-(10000 - n)."""
        return self._loop.run_until_complete(self._evaluate(boards))

    async def _evaluate(self, boards: Sequence[chess.Board]) -> list[int]:
        scores = [0] * len(boards)
        numbers = itertools.count()

        async def work(engine: chess.engine.UciProtocol) -> None:
            while (i := next(numbers)) < len(boards):
                info = await engine.analyse(
                    boards[i], self._limit, game=object(), info=chess.engine.INFO_SCORE
                )
                score = info["score"].relative.score(mate_score=10_000)
                assert score is not None
                scores[i] = score

        await asyncio.gather(*(work(engine) for engine in self._engines))
        return scores

    def close(self) -> None:
        """Ends the engines."""

        async def quit_all() -> None:
            for engine in self._engines:
                await engine.quit()

        self._loop.run_until_complete(quit_all())
        self._loop.close()
