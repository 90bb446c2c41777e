"""A tiny evaluator for tests that are about the environment: the material balance, computed in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators import RuleAwareEvaluator

VALUES_CP = (100, 300, 310, 500, 900)


class MaterialEvaluator(RuleAwareEvaluator):
    """Centipawns of material, side to move's view; counts calls and remembers whether it was closed."""

    id = "test-material"

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.closed = False

    def _score_ongoing(self, positions: NDArray[np.uint64]) -> NDArray[np.int32]:
        self.calls += 1
        scores_cp = np.zeros(len(positions), np.int32)
        own = positions[:, 6]
        for kind, value_cp in enumerate(VALUES_CP):
            men = positions[:, kind]
            balance = np.bitwise_count(men & own).astype(np.int32) - np.bitwise_count(men & ~own)
            scores_cp += value_cp * balance
        return scores_cp

    def close(self) -> None:
        self.closed = True
