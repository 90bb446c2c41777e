"""What a run came to, with intervals over the held-out positions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MAIN_SLICE = "random_2_40"  # what eval/regret_cp and the checkpoint `best` are measured on


@dataclass(frozen=True)
class TrainResult:
    """What a run came to. Intervals are 95 % bootstrap intervals over the held-out positions.

    Attributes:
        run_dir: the run folder.
        algorithm: the preset that was run, or the algorithm's name.
        evaluator: id of what rewarded the moves.
        evaluations: positions that the evaluator was asked for.
        engine_queries: those that it really scored (neither repeated, cached nor over by the rules).
        updates, plies, scored_moves: amounts done.
        regret_cp_start, regret_cp_end: eval/regret_cp before the first and after the last update.
        regret_cp_start_interval, regret_cp_end_interval: their intervals.
        percent_of_start, percent_of_start_interval: 100 x end / start; positions are resampled
            in pairs.
        regret_cp_best: lowest eval/regret_cp (the checkpoint `best`).
        entropy_min: lowest eval/entropy of the run, nats.
        wall_s, cpu_s: seconds; CPU time is that of trainer and engines.
        stopped_by: what ended the run early: the name of a signal, or a controller's reason; None
            at the end of the budget.
    """

    run_dir: Path
    algorithm: str
    evaluator: str
    evaluations: int
    engine_queries: int
    updates: int
    plies: int
    scored_moves: int
    regret_cp_start: float
    regret_cp_start_interval: tuple[float, float]
    regret_cp_end: float
    regret_cp_end_interval: tuple[float, float]
    percent_of_start: float
    percent_of_start_interval: tuple[float, float]
    regret_cp_best: float
    entropy_min: float
    wall_s: float
    cpu_s: float
    stopped_by: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON values of every field."""
        return {**dataclasses.asdict(self), "run_dir": str(self.run_dir)}

    def lines(self) -> list[str]:
        """The end of a run in a few lines for people."""
        start, end, share = (
            f"{value:.1f} [{low:.1f}, {high:.1f}]"
            for value, (low, high) in (
                (self.regret_cp_start, self.regret_cp_start_interval),
                (self.regret_cp_end, self.regret_cp_end_interval),
                (self.percent_of_start, self.percent_of_start_interval),
            )
        )
        return [
            f"eval/regret_cp on {MAIN_SLICE}, with 95 % intervals over the positions:",
            f"  {start} cp -> {end} cp",
            f"  {share} % of the start",
            f"  best {self.regret_cp_best:.1f} cp, lowest held-out entropy "
            f"{self.entropy_min:.2f} nats",
            f"{self.scored_moves:,} scored moves in {self.updates:,} updates, "
            f"{self.cpu_s / 60:.1f} CPU-minutes, {self.wall_s / 60:.1f} minutes",
            f"rewards: {self.evaluator}",
            f"  {self.engine_queries:,} positions scored",
            f"run folder: {self.run_dir}",
        ]


def percent_interval(
    start: np.ndarray, end: np.ndarray, *, resamples: int = 2000
) -> tuple[float, float]:
    """95 % bootstrap interval of 100 x mean(end) / mean(start), positions resampled in pairs."""
    rng = np.random.default_rng(0)
    index = rng.integers(len(start), size=(resamples, len(start)))
    shares = 100 * end[index].mean(1) / start[index].mean(1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(low), float(high)
