"""The built-in evaluator: a tapered evaluation with quiescence search, compiled; needs no engine.

Its place between material counting and Stockfish is measured by `benchmarks/speed/builtin_evaluator.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.protocol import RuleAwareEvaluator, Scores


class BuiltinEvaluator(RuleAwareEvaluator):
    """Scores by quiescence search (`quiescence.py`) over a static evaluation (`static_evaluation.py`).

    Integers only, no state between positions: a score is equal on every machine and in every order.
    Scores are on the centipawn scale of Stockfish 15.1, to whose win probabilities the evaluation was
    fitted, within +-9000; a mate that the search proves is +-(10000 - n).
    """

    id = "builtin-v1"

    def __init__(self) -> None:
        super().__init__()
        self._nodes = 0

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> Scores:
        from chess_env.evaluators.builtin.quiescence import score_batch
        from chess_env.jit import announced

        scores = np.empty(len(positions), np.int32)
        if score_batch.signatures:
            self._nodes += int(score_batch(positions, scores))
        else:
            with announced("the built-in evaluator"):
                self._nodes += int(score_batch(positions, scores))
        return scores

    def counters(self) -> dict[str, int | float]:
        """Cumulative: `queries`, `unique_queries` as of every evaluator, and `nodes` of the search."""
        return {**super().counters(), "nodes": self._nodes}
