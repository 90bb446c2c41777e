"""The result of a pretraining run, with intervals over the held-out positions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algorithms.evaluation.heldout import MAIN_SLICE, Regret
from algorithms.pretraining.learner import Pretraining
from algorithms.reports.bootstrap import bootstrap_interval
from algorithms.run_folder.console import duration
from algorithms.training.result import learned


@dataclass(frozen=True)
class PretrainResult:
    """The result of a pretraining run. Intervals are 95 % bootstrap intervals over the held-out positions.

    Attributes:
        run_dir: the run folder.
        labels: id of the evaluator that labelled the moves, or the file of games.
        labelled_positions: positions in the shards.
        games: counts of a file of games (`GameCounts`); all 0 without one.
        shards_made, shards_remade, shards_kept: by this process; remade ones were damaged.
        label_s: seconds that this process spent on labels.
        steps, positions: optimizer steps done, and positions learned from (repeated ones too).
        regret_cp_start, regret_cp_end: eval/regret_cp before the first and after the last step.
        regret_cp_end_interval: its interval.
        regret_cp_greedy_end: eval/regret_cp_greedy after the last step.
        regret_cp_greedy_end_interval: its interval.
        regret_cp_best: lowest eval/regret_cp (the checkpoint `best`).
        wall_s, cpu_s: seconds of all processes of the run.
        stopped_by: the name of a signal, or why the run ended early; None at the end of the budget.
    """

    run_dir: Path
    labels: str
    labelled_positions: int
    games: dict[str, int]
    shards_made: int
    shards_remade: int
    shards_kept: int
    label_s: float
    steps: int
    positions: int
    regret_cp_start: float
    regret_cp_end: float
    regret_cp_end_interval: tuple[float, float]
    regret_cp_greedy_end: float
    regret_cp_greedy_end_interval: tuple[float, float]
    regret_cp_best: float
    wall_s: float
    cpu_s: float
    stopped_by: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON values of every field."""
        return {**dataclasses.asdict(self), "run_dir": str(self.run_dir)}

    def lines(self) -> list[str]:
        """The end of a run in a few lines for people."""
        low, high = self.regret_cp_end_interval
        greedy_low, greedy_high = self.regret_cp_greedy_end_interval
        told_apart = not low <= self.regret_cp_start <= high
        return [
            *learned(self.regret_cp_start, self.regret_cp_end, told_apart=told_apart),
            f"eval/regret_cp on {MAIN_SLICE}, with 95 % intervals over the positions:",
            f"  {self.regret_cp_start:.1f} cp -> {self.regret_cp_end:.1f} [{low:.1f}, {high:.1f}] cp",
            f"  greedy {self.regret_cp_greedy_end:.1f} [{greedy_low:.1f}, {greedy_high:.1f}] cp",
            f"  best {self.regret_cp_best:.1f} cp",
            f"{self.positions:,} positions in {self.steps:,} steps, "
            f"CPU time {duration(self.cpu_s)}, clock {duration(self.wall_s)}",
            f"labels: {self.labelled_positions:,} positions by",
            f"  {self.labels}",
            f"  shards made {self.shards_made}, made anew {self.shards_remade}, kept {self.shards_kept}",
            f"run folder: {self.run_dir}",
            f"best checkpoint: {self.run_dir / 'checkpoints' / 'best'}",
        ]


def result_of(
    session: Pretraining,
    regret: Regret,
    run_dir: Path,
    *,
    labels: dict[str, Any],
    stopped_by: str | None,
) -> PretrainResult:
    """The result of the run.

    Args:
        session: after its last step.
        regret: of the last evaluation.
        run_dir: the run folder.
        labels: the fields of `PretrainResult` that are about labels.
        stopped_by: why it ended early; None at the end of the budget.
    """
    done = session.progress
    greedy = regret.per_position_greedy_cp
    return PretrainResult(
        run_dir=run_dir,
        **labels,
        steps=done.update,
        positions=done.plies,
        regret_cp_start=float(done.start_regret_cp.mean()),
        regret_cp_end=regret.regret_cp,
        regret_cp_end_interval=bootstrap_interval(regret.per_position_cp),
        regret_cp_greedy_end=regret.regret_cp_greedy,
        regret_cp_greedy_end_interval=bootstrap_interval(greedy),
        regret_cp_best=done.best_regret_cp,
        wall_s=done.wall_s,
        cpu_s=done.cpu_s,
        stopped_by=stopped_by,
    )
