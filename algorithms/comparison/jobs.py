"""The runs of a comparison: the variant of each run, and its reading."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from algorithms.collapse.cause import FIRST
from algorithms.comparison.grid import CELLS_FILE
from algorithms.comparison.grid_runs import GridResult, GridRun
from algorithms.comparison.plan import Plan
from algorithms.comparison.readings import RunSummary, UnreadableError, read_run
from algorithms.comparison.variants import CONTROL, Variant, foreign_arguments, train_arguments
from algorithms.config.run import TrainConfig
from algorithms.run_folder.atomic_files import read_json

CONTROL_SEEDS = 2
"""Seeds of the controls: they are checked one by one, and not by statistics."""


class MixedError(RuntimeError):
    """Runs that are not comparable; the message says why."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A run, and the variant and seed of its reading.

    Attributes:
        grid_run: the run.
        variant: name of its variant.
        seed: its seed.
        config: the settings that it must have, at any seed; None for a cause, which has its own.
    """

    grid_run: GridRun
    variant: str
    seed: int
    config: TrainConfig | None


def variant_runs(variant: Variant, seeds: Sequence[int], out: Path) -> tuple[GridRun, ...]:
    """The runs of a variant: `out`/NAME/seed-N."""
    return tuple(
        GridRun(
            f"{variant.name}/seed-{seed}",
            train_arguments(dataclasses.replace(variant.config, seed=seed)),
            out / variant.name / f"seed-{seed}",
            said_again=foreign_arguments(variant.config),
        )
        for seed in seeds
    )


def make_jobs(plan: Plan, variants: Sequence[Variant], runs: Path) -> list[Job]:
    """Every run of the comparison, seed by seed, so that the first runs already make pairs."""
    jobs = []
    for variant in variants:
        seeds = plan.seeds[:CONTROL_SEEDS] if variant.family == CONTROL else plan.seeds
        for grid_run, seed in zip(variant_runs(variant, seeds, runs), seeds, strict=True):
            jobs.append(Job(grid_run, variant.name, seed, variant.config))
    for cause in plan.causes:
        jobs += [
            Job(_cause_run(plan, cause, name, seed, runs), name, seed, None)
            for name in (cause, cured(cause))
            for seed in plan.seeds
        ]
    return sorted(jobs, key=lambda job: job.seed)


def cured(cause: str) -> str:
    """The variant of a cause's cured twin."""
    return f"{cause}-cured"


def _cause_run(plan: Plan, cause: str, name: str, seed: int, runs: Path) -> GridRun:
    """A run of a cause; its fault may be in no setting, so it cannot be continued."""
    arguments = ["causes", "run", cause, "--seed", str(seed)]
    arguments += ["--cured"] if name == cured(cause) else []
    # The first is the default of `causes run`: a folder that was begun with it goes on.
    arguments += ["--network", plan.cause_network] if plan.cause_network != FIRST else []
    arguments += ["--smoke"] if plan.smoke else []
    folder = runs / "causes" / name / f"seed-{seed}"
    return GridRun(f"causes/{name}/seed-{seed}", tuple(arguments), folder, resume=False)


def read_jobs(
    jobs: Sequence[Job], grid: GridResult
) -> tuple[dict[str, dict[int, RunSummary]], list[dict[str, str]]]:
    """({variant: {seed: reading}}, [{"run", "reason"}, ...] of the broken ones).

    Args:
        jobs: the runs.
        grid: their outcomes.
    """
    outcomes = {outcome.grid_run.name: outcome for outcome in grid.outcomes}
    readings: dict[str, dict[int, RunSummary]] = {}
    broken = []
    for job in jobs:
        outcome = outcomes[job.grid_run.name]
        try:
            if outcome.state != "finished":
                raise UnreadableError(
                    f"{outcome.state} with exit code {outcome.exit_code}; see {job.grid_run.log}"
                )
            reading = read_run(job.grid_run, job.variant, job.seed, job.config)
        except UnreadableError as error:
            broken.append({"cell": job.grid_run.name, "reason": str(error)})
        else:
            readings.setdefault(job.variant, {})[job.seed] = reading
    return readings, broken


def refuse_other_runs(
    plan: Plan, variants: Sequence[Variant], out: Path, evaluator_id: str
) -> None:
    """Raises MixedError where the folder holds finished runs that cannot be compared with these."""
    if plan.allow_mixed:
        return
    runs, own = out / "runs", {variant.name for variant in variants}
    for name, record in read_json(runs / CELLS_FILE).items():
        if name.rpartition("/")[0] in own:
            continue  # the grid refuses it where its settings are others
        grid_run = GridRun(name, tuple(record["arguments"]), runs / record["folder"])
        if grid_run.arguments[0] != "train" or grid_run.result() is None:
            continue
        try:
            old = read_run(grid_run, name, 0, None)
        except UnreadableError:
            continue  # it is not compared either, or reported where it is asked for
        for what, then, now in (
            ("evaluator", old.evaluator, evaluator_id),
            ("budget in scored moves", old.budget_moves, plan.budget_moves),
        ):
            if then != now:
                raise MixedError(
                    f"{out} holds {name} with {what} {then}, and this comparison has {now}: "
                    "choose another --out, or give --allow-mixed"
                )
