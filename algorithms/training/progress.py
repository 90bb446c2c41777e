"""How far a run has come."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Progress:
    """What a run has done, over all its processes.

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
