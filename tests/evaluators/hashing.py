"""An evaluator for tests that are about something else: a score from the position's hash."""

from __future__ import annotations

import numpy as np

from chess_env.evaluators import RuleAwareEvaluator
from chess_env.rules import rules


class Hashing(RuleAwareEvaluator):
    """Scores a position by its hash; `salt` makes another evaluator of it."""

    def __init__(self, salt: int = 0) -> None:
        super().__init__()
        self.salt = salt

    @property
    def id(self) -> str:
        return f"hashing-{self.salt}"

    def _score_ongoing(self, positions: np.ndarray) -> np.ndarray:
        return (rules.hash_batch(positions) % np.uint64(9973)).astype(np.int32) + self.salt
