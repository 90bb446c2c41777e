"""The built-in evaluator: a tapered evaluation with quiescence search, compiled; needs no engine.

Its place between material counting and Stockfish is measured by `benchmarks/speed/builtin_evaluator.py`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.protocol import RuleAwareEvaluator, Scores

PARTS_PER_THREAD = 4
"""Some positions take much longer than others: a thread that is done takes another part."""

LEAST_PART = 64
"""Positions that are worth handing to another thread: about half a millisecond of search."""


class BuiltinEvaluator(RuleAwareEvaluator):
    """Scores by quiescence search (`quiescence.py`) over a static evaluation (`static_evaluation.py`).

    Integers only, no state between positions: a score is equal on every machine and in every order.
    Scores are on the centipawn scale of Stockfish 15.1, to whose win probabilities the evaluation was
    fitted, within +-9000; a mate that the search proves is +-(10000 - n).

    Args:
        num_threads: threads that search; they change no score.

    Raises:
        ValueError: `num_threads` is not a whole number from 1 on.
    """

    id = "builtin-v1"

    def __init__(self, num_threads: int = 1) -> None:
        super().__init__()
        if not isinstance(num_threads, int) or num_threads < 1:
            raise ValueError(f"num_threads is {num_threads!r}: expected a whole number from 1 on")
        self.num_threads = num_threads
        self._nodes = 0
        self._pool: ThreadPoolExecutor | None = None

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> Scores:
        from chess_env.evaluators.builtin.quiescence import score_batch
        from chess_env.jit import announced

        scores = np.empty(len(positions), np.int32)
        parts = min(self.num_threads * PARTS_PER_THREAD, len(positions) // LEAST_PART)
        if not score_batch.signatures:
            with announced("the built-in evaluator"):
                self._nodes += int(score_batch(positions, scores))
        elif self.num_threads == 1 or parts < 2:
            self._nodes += int(score_batch(positions, scores))
        else:
            self._pool = self._pool or ThreadPoolExecutor(self.num_threads, "builtin-evaluator")
            split = np.array_split(positions, parts), np.array_split(scores, parts)
            self._nodes += sum(map(int, self._pool.map(score_batch, *split)))
        return scores

    def counters(self) -> dict[str, int | float]:
        """Cumulative: `queries`, `unique_queries` as of every evaluator, and `nodes` of the search."""
        return {**super().counters(), "nodes": self._nodes}

    def close(self) -> None:
        """Ends the threads; the evaluator starts new ones when it is asked again."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
