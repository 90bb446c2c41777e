"""The readings that a comparison takes from a run folder."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.comparison.grid_runs import GridRun, stopped_by
from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.reports.run_files import read_metrics
from algorithms.reports.tasks import START_TOLERANCE
from algorithms.run_folder.atomic_files import read_json

LEVELS = (70, 60, 50, 40, 35)
"""Percentages of the starting regret at which runs are matched; the deepest that all reach counts."""


class UnreadableError(ValueError):
    """A run cannot be used; the message says why, without the run's name."""


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """One finished run.

    Attributes:
        column, seed: which run.
        evaluator: id of the evaluator that rewarded the moves.
        budget_moves: scored moves that the run was given.
        commit: of the code that ran it, None outside a clone.
        ended_by: the controller that ended the run before its budget, or None.
        scored_moves: at each evaluation.
        regret_cp: `eval/regret_cp` at each evaluation, the first before any update.
        entropy: `eval/entropy` at each evaluation, nats.
        grad_share: median of bonus / (bonus + policy) gradient norms; None without a bonus.
    """

    column: str
    seed: int
    evaluator: str
    budget_moves: int
    commit: str | None
    ended_by: str | None
    scored_moves: tuple[int, ...]
    regret_cp: tuple[float, ...]
    entropy: tuple[float, ...]
    grad_share: float | None

    @property
    def percent_of_start(self) -> float:
        """Last held-out regret in percent of the first."""
        return 100 * self.regret_cp[-1] / self.regret_cp[0]

    def entropy_at(self, percent: float) -> float | None:
        """Held-out entropy, nats, where regret first falls to `percent` of its start; None if never.

        On the straight line between the evaluations before and after.
        """
        goal = percent / 100 * self.regret_cp[0]
        points = zip(self.regret_cp, self.entropy, strict=True)
        for (regret, entropy), (regret_next, entropy_next) in itertools.pairwise(points):
            if regret_next <= goal:
                share = (regret - goal) / (regret - regret_next)
                return entropy + share * (entropy_next - entropy)
        return None

    def to_dict(self) -> dict[str, Any]:
        """JSON values, with the entropy at every level."""
        values = dataclasses.asdict(self)
        values["percent_of_start"] = self.percent_of_start
        values["entropy_at_percent"] = {str(level): self.entropy_at(level) for level in LEVELS}
        return values


def read_run(grid_run: GridRun, column: str, seed: int, config: TrainConfig | None) -> RunSummary:
    """The reading of a finished run.

    Args:
        grid_run: its folder.
        column: of the comparison.
        seed: of the run.
        config: the settings that the run must have, at any seed and in any folder; None: any.

    Raises:
        UnreadableError: the run is not finished, its record is damaged, or it is another run.
    """
    result = grid_run.result()
    if result is None:
        raise UnreadableError(f"not finished; its log is {grid_run.log}")
    try:
        path, rows = grid_run.folder / "config.json", read_metrics(grid_run.folder)
        budget = int(config_file.read_settings(path)["total_moves"])
        own = None if config is None else config_file.load_record(path, config)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreadableError(f"its record cannot be read: {error}") from error
    if config is not None and own is not None:
        wanted = dataclasses.replace(config, seed=seed, run_dir=own.run_dir)
        others = config_file.differences(_in_numbers(wanted), _in_numbers(own))
        for name in (
            "env.cache",
            "env.num_engines",
            "env.num_threads",
        ):  # where scores are kept, and who computes them
            others.pop(name, None)
        if others:
            listed = ", ".join(f"{k} {new!r}, not {old!r}" for k, (old, new) in others.items())
            raise UnreadableError(f"it was run with other settings: {listed}; remove its folder")
    environment = read_json(grid_run.folder / "environment.json")
    evaluator = str(environment.get("evaluator", result.get("evaluator")))
    return dataclasses.replace(
        summary_of(rows, column, seed, evaluator),
        budget_moves=budget,
        commit=(environment.get("git") or {}).get("commit"),
        ended_by=stopped_by(result),
    )


def summary_of(
    rows: Sequence[Mapping[str, float | None]], column: str, seed: int, evaluator: str
) -> RunSummary:
    """The reading of a run's rows alone: its budget is what it spent, its commit and its end are unknown.

    Raises:
        UnreadableError: too few evaluations, or one that is not finite.
    """
    looks = [row for row in rows if "eval/regret_cp" in row]
    curves = {
        name: [_number(row, name) for row in looks] for name in ("eval/regret_cp", "eval/entropy")
    }
    if len(looks) < 2 or not curves["eval/regret_cp"][0] > 0:
        raise UnreadableError(f"it has {len(looks)} evaluations; at least 2 are needed")
    scored_moves = tuple(int(_number(row, "scored_moves")) for row in looks)
    return RunSummary(
        column=column,
        seed=seed,
        evaluator=evaluator,
        budget_moves=scored_moves[-1],
        commit=None,
        ended_by=None,
        scored_moves=scored_moves,
        regret_cp=tuple(curves["eval/regret_cp"]),
        entropy=tuple(curves["eval/entropy"]),
        grad_share=share_of_bonus(rows),
    )


def _in_numbers(config: TrainConfig) -> TrainConfig:
    """The same run with numbers for all that a name of a network or size stands for."""
    size = config.policy.dimensions._asdict()
    policy = dataclasses.replace(config.policy, size="medium", **size)
    return dataclasses.replace(config.settled(), policy=policy)


def share_of_bonus(rows: Sequence[Mapping[str, float | None]]) -> float | None:
    """Median of entropy / (entropy + policy) gradient norms over a run's looks; None without any."""
    found = [bonus / (bonus + policy) for bonus, policy in gradient_norms(rows)]
    return statistics.median(found) if found else None


def gradient_norms(rows: Sequence[Mapping[str, float | None]]) -> list[tuple[float, float]]:
    """(bonus, policy) gradient norms of every look that has both and is not all zero."""
    pairs = [
        (row.get("grad_share/entropy_norm"), row.get("grad_share/policy_norm")) for row in rows
    ]
    return [(bonus, policy) for bonus, policy in pairs if bonus and policy]


def mixed_readings(readings: Sequence[RunSummary]) -> list[str]:
    """Sentences on what should be equal in the runs and is not; empty where they are comparable."""
    found = []
    for name, what in (("evaluator", "evaluators"), ("budget_moves", "budgets in scored moves")):
        by_value: dict[Any, str] = {}
        for each in readings:
            by_value.setdefault(getattr(each, name), f"{each.column}, seed {each.seed}")
        if len(by_value) > 1:
            listed = "; ".join(f"{value} ({where})" for value, where in by_value.items())
            found.append(f"the runs have different {what}: {listed}")
    for seed in sorted({each.seed for each in readings}):
        own = [each for each in readings if each.seed == seed]
        first = own[0]
        for each in own[1:]:
            if not math.isclose(each.regret_cp[0], first.regret_cp[0], rel_tol=START_TOLERANCE):
                found.append(
                    f"on seed {seed} {first.column} starts at a held-out regret of "
                    f"{first.regret_cp[0]:.3f} cp and {each.column} at {each.regret_cp[0]:.3f} cp, "
                    "so their networks or first weights differ"
                )
                break
    return found


def matched_level(ours: Sequence[RunSummary], theirs: Sequence[RunSummary]) -> int | None:
    """The deepest of `LEVELS` that every run of both columns reaches; None where there is none."""
    runs = [*ours, *theirs]
    common = [level for level in LEVELS if all(r.entropy_at(level) is not None for r in runs)]
    return min(common, default=None)


def _number(row: Mapping[str, float | None], name: str) -> float:
    """A finite metric of a row; UnreadableError where it is null or missing."""
    value = row.get(name)
    if value is None:
        raise UnreadableError(f"{name} is not a number at step {row.get('step')}")
    return float(value)
