"""The progress of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from chess_env.evaluators import Evaluator


@dataclass
class Progress:
    """Amounts that a run has done, over all its processes.

    Attributes:
        update: updates done.
        plies: plies played.
        scored_moves: sampled moves that were given a reward: what the budget counts.
        evaluations: positions the evaluator was asked for, repeated and cached ones included.
        engine_queries: positions that the engine (or the built-in search) really scored.
        wall_s: seconds since the start, pauses between processes left out.
        cpu_s: CPU seconds of trainer and engines.
        best_regret_cp: lowest eval/regret_cp so far.
        start_regret_cp: regret of each held-out position before the first update; empty before it.
        entropy_min: lowest eval/entropy so far, nats.
        largest_rollout: most scored moves of one rollout so far.
    """

    update: int = 0
    plies: int = 0
    scored_moves: int = 0
    evaluations: int = 0
    engine_queries: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    best_regret_cp: float = float("inf")
    start_regret_cp: np.ndarray = field(default_factory=lambda: np.zeros(0))
    entropy_min: float = float("inf")
    largest_rollout: int = 0


class EvaluatorUsage:
    """The queries of a run to its evaluator, by the evaluator's own counters.

    Args:
        evaluator: whose counters are read; they count for its whole life.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._counted = 0, 0

    def count(self, progress: Progress) -> dict[str, float]:
        """The evaluator's counters; adds what is new in them to the progress."""
        counters = {name: float(value) for name, value in self._evaluator.counters().items()}
        asked, scored = self._amounts()
        progress.evaluations += asked - self._counted[0]
        progress.engine_queries += scored - self._counted[1]
        self._counted = asked, scored
        return counters

    @contextmanager
    def untracked(self) -> Iterator[None]:
        """A context whose queries are not counted in the run's record."""
        before = self._amounts()
        yield
        after = self._amounts()
        asked, scored = (
            then + b - a for then, a, b in zip(self._counted, before, after, strict=True)
        )
        self._counted = asked, scored

    def _amounts(self) -> tuple[int, int]:
        counters = self._evaluator.counters()
        return int(counters["queries"]), int(counters["unique_queries"])
