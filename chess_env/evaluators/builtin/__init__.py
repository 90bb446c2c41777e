"""The built-in evaluator: a tapered evaluation with quiescence search, compiled; needs no engine.

Its place between material counting and Stockfish is measured by `benchmarks/speed/builtin_evaluator.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.protocol import RuleAwareEvaluator, Scores
from chess_env.threads import Threads

MAX_DEPTH = 3
"""Plies that may be searched in full; each costs two to five times as much as the one before."""

LEAST_PART = 64
"""Positions that are worth handing to another thread: about half a millisecond of search."""

AfterSearch = Callable[[NDArray[np.uint64], Scores, NDArray[np.bool_]], int]
"""Takes positions uint64 [n, 8], and of them what `BuiltinEvaluator.search` says."""


def require_depth(depth: int) -> None:
    """None; raises ValueError where the built-in evaluator does not search to this depth."""
    if depth not in range(MAX_DEPTH + 1):
        raise ValueError(
            f"depth is {depth}: expected 0 to {MAX_DEPTH} for the built-in evaluator; Stockfish searches deeper, "
            'as in "stockfish:depth=8"'
        )


class BuiltinEvaluator(RuleAwareEvaluator):
    """Scores by quiescence search (`quiescence.py`) over a static evaluation (`static_evaluation.py`).

    Integers only, no state between positions: a score is equal on every machine and in every order.
    Scores are on the centipawn scale of Stockfish 15.1, to whose win probabilities the evaluation was
    fitted, within +-9000; a mate that the search proves is +-(10000 - n).

    Args:
        num_threads: threads that search, at most; they change no score. None: one for each core that the process may
            use.
        depth: plies of which every move is searched before captures alone are, 0 to 3.

    Raises:
        ValueError: `num_threads` is not None or a whole number from 1 on, or `depth` is outside its range.
    """

    def __init__(self, num_threads: int | None = 1, depth: int = 0) -> None:
        require_depth(depth)
        super().__init__(Threads(num_threads))
        self.depth = depth
        self.in_background = self.threads.num_threads > 1  # on one core a second thread only costs
        self._nodes = 0

    @property
    def id(self) -> str:
        """`builtin-v1`, or such as `builtin;depth=2;v1`."""
        return f"builtin;depth={self.depth};v1" if self.depth else "builtin-v1"

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> Scores:
        return self.search(positions)[0]

    def search(
        self, positions: NDArray[np.uint64], then: AfterSearch | None = None
    ) -> tuple[Scores, NDArray[np.bool_], int]:
        """(int32 [N] scores, bool [N] False where the mover has no check that leaves few replies, what `then` gave).

        Args:
            positions: uint64 [N, 8], packed, in which the game goes on.
            then: is called with parts of the positions and of both arrays, by the thread that has searched them, and
                may change the scores; what it gives is summed. None gives 0.
        """
        from chess_env.evaluators.builtin.quiescence import score_batch
        from chess_env.jit import announced

        scores, forcing = np.empty(len(positions), np.int32), np.empty(len(positions), np.bool_)

        def search_part(part: slice) -> tuple[int, int]:
            these = positions[part], scores[part], forcing[part]
            return int(score_batch(*these, self.depth)), 0 if then is None else then(*these)

        with announced("the built-in evaluator", score_batch):
            found = self.threads.over(len(positions), search_part, least=LEAST_PART)
        self._nodes += sum(nodes for nodes, _ in found)
        return scores, forcing, sum(changed for _, changed in found)

    def counters(self) -> dict[str, int | float]:
        """Cumulative: `queries`, `unique_queries` as of every evaluator, and `nodes` of the search."""
        return {**super().counters(), "nodes": self._nodes}

    def close(self) -> None:
        """Ends the threads; the evaluator starts new ones when it is asked again."""
        self.threads.close()
