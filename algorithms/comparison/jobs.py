"""The cells of a comparison: which run is whose, and what came of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from algorithms.collapse.causes import CAUSES
from algorithms.comparison.grid import CELLS_FILE
from algorithms.comparison.grid_runs import Cell, GridResult
from algorithms.comparison.plan import Plan
from algorithms.comparison.readings import Reading, UnreadableError, read_cell
from algorithms.comparison.variants import CONTROL, Column, train_arguments
from algorithms.config.run import TrainConfig
from algorithms.run_folder.files import read_json

CONTROL_SEEDS = 2
"""Seeds of the controls: they are checked one by one, and not by statistics."""


class MixedError(RuntimeError):
    """Runs that are not comparable; the message says why."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A cell and where its reading belongs.

    Attributes:
        cell: the run.
        column: name of its column.
        seed: its seed.
        config: what it must have run, at any seed; None for a cause, which has its own.
    """

    cell: Cell
    column: str
    seed: int
    config: TrainConfig | None


def column_cells(column: Column, seeds: Sequence[int], out: Path) -> tuple[Cell, ...]:
    """The cells of a column: `out`/NAME/seed-N."""
    return tuple(
        Cell(
            f"{column.name}/seed-{seed}",
            train_arguments(dataclasses.replace(column.config, seed=seed)),
            out / column.name / f"seed-{seed}",
            resume=column.config.trainer == "own",
        )
        for seed in seeds
    )


def make_jobs(plan: Plan, columns: Sequence[Column], runs: Path) -> list[Job]:
    """Every run of the comparison, seed by seed, so that what is there early already holds pairs."""
    jobs = []
    for column in columns:
        seeds = plan.seeds[:CONTROL_SEEDS] if column.family == CONTROL else plan.seeds
        for cell, seed in zip(column_cells(column, seeds, runs), seeds, strict=True):
            jobs.append(Job(cell, column.name, seed, column.config))
    for cause in plan.causes:
        jobs += [
            Job(_cause_cell(plan, cause, name, seed, runs), name, seed, None)
            for name in (cause, cured(cause))
            for seed in plan.seeds
        ]
    return sorted(jobs, key=lambda job: job.seed)


def cured(cause: str) -> str:
    """The column of a cause's cured twin."""
    return f"{cause}-cured"


def _cause_cell(plan: Plan, cause: str, name: str, seed: int, runs: Path) -> Cell:
    """A run of a cause; its fault may be in no setting, so it cannot be continued."""
    arguments = ["causes", "run", cause, "--seed", str(seed)]
    arguments += ["--cured"] if name == cured(cause) else []
    arguments += ["--smoke"] if plan.smoke else []
    if name == cause and CAUSES[cause].blocked_by_preflight:
        arguments += ["--no-preflight"]
    folder = runs / "causes" / name / f"seed-{seed}"
    return Cell(f"causes/{name}/seed-{seed}", tuple(arguments), folder, resume=False)


def read_jobs(
    jobs: Sequence[Job], grid: GridResult
) -> tuple[dict[str, dict[int, Reading]], list[dict[str, str]]]:
    """({column: {seed: reading}}, [{"cell", "reason"}, ...] of the broken ones).

    Args:
        jobs: what was run.
        grid: what became of it.
    """
    outcomes = {outcome.cell.name: outcome for outcome in grid.outcomes}
    readings: dict[str, dict[int, Reading]] = {}
    broken = []
    for job in jobs:
        outcome = outcomes[job.cell.name]
        try:
            if outcome.state != "finished":
                raise UnreadableError(
                    f"{outcome.state} with exit code {outcome.exit_code}; see {job.cell.log}"
                )
            reading = read_cell(job.cell, job.column, job.seed, job.config)
        except UnreadableError as error:
            broken.append({"cell": job.cell.name, "reason": str(error)})
        else:
            readings.setdefault(job.column, {})[job.seed] = reading
    return readings, broken


def refuse_other_runs(plan: Plan, columns: Sequence[Column], out: Path, evaluator_id: str) -> None:
    """None; MixedError where the folder holds finished runs that these could not stand beside."""
    if plan.allow_mixed:
        return
    runs, own = out / "runs", {column.name for column in columns}
    for name, record in read_json(runs / CELLS_FILE).items():
        if name.rpartition("/")[0] in own:
            continue  # the grid refuses it where its settings are others
        cell = Cell(name, tuple(record["arguments"]), runs / record["folder"])
        if cell.arguments[0] != "train" or cell.result() is None:
            continue
        try:
            old = read_cell(cell, name, 0, None)
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
