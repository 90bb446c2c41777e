"""The progress of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algorithms.run_folder.environment import cpu_seconds
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
    """The queries of a run to its evaluators, by the evaluators' own counters.

    Args:
        evaluator: of this process, whose counters are read; they count for its whole life.
        gather: gives the values of all processes of the run, given this one's.

    Attributes:
        others_cpu_s: CPU seconds that the other processes have used, as of the last `count`.
    """

    def __init__(self, evaluator: Evaluator, gather: Callable[[Any], Sequence[Any]]) -> None:
        self._evaluator, self._gather = evaluator, gather
        self._counted = 0, 0
        self._cpu_s = cpu_seconds()
        self.others_cpu_s = 0.0

    def count(self, progress: Progress) -> dict[str, float]:
        """The evaluators' counters, added up; adds what is new in them to the progress."""
        asked, scored = self._amounts()
        own: dict[str, Any] = {
            "new": (asked - self._counted[0], scored - self._counted[1]),
            "counters": {name: float(n) for name, n in self._evaluator.counters().items()},
            "cpu_s": cpu_seconds() - self._cpu_s,
        }
        self._counted = asked, scored
        found = self._gather(own)
        progress.evaluations += sum(each["new"][0] for each in found)
        progress.engine_queries += sum(each["new"][1] for each in found)
        self.others_cpu_s = sum(each["cpu_s"] for each in found) - own["cpu_s"]
        return {name: sum(each["counters"][name] for each in found) for name in own["counters"]}

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
