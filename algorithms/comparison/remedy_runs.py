"""The runs of the matrix of faults and remedies: which faults do harm, and what every remedy does against those.

OUT/cells.json              each trial's command and state (`grid`)
OUT/harm/FAULT+SIDE/        result.json of the runs that say whether a fault does harm, on seeds of their own
OUT/trials/FAULT+REMEDY/    result.json of a trial on the reported seeds
OUT/remedies.json           everything, written at the end; `remedy_verdicts` reads it
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from algorithms.collapse import CAUSES
from algorithms.collapse.cause import ARCHITECTURES
from algorithms.collapse.remedies import REMEDIES, remedy_of
from algorithms.collapse.trial import SOUND, STARTS, TWIN, UNTREATED, Start, Trial
from algorithms.comparison.executors import Executor
from algorithms.comparison.grid import StoppedError, run_grid
from algorithms.comparison.grid_runs import GridRun
from algorithms.core.checks import require, require_choice, require_count
from algorithms.networks.settings import DEFAULT_NETWORK
from algorithms.reports.statistics import minimum_seeds

HARM_SEEDS = (1901, 1902, 1903)
"""Whether a fault does harm is decided on these, which are never reported."""

HARM = 0.05
"""A fault does harm where its runs end this share of their first regret above their twins."""

RESULT_FILE = "remedies.json"

Key = tuple[str, str]
Trials = dict[Key, list[dict[str, Any]]]


@dataclasses.dataclass(frozen=True)
class RemedyPlan:
    """What is tried.

    Attributes:
        start: where the runs begin.
        network: of all runs, a name of `ARCHITECTURES`.
        faults: names of causes, and `SOUND`.
        remedies: as of `remedy_of`.
        cells: (fault, remedy) of the matrix that are run; None for all.
        num_seeds: reported seeds of each trial.
        first_seed: the first of them.
        smoke: a few seconds for each trial, of every fault, to see that the parts work.
    """

    start: Start
    network: str = DEFAULT_NETWORK
    faults: tuple[str, ...] = (*CAUSES, SOUND)
    remedies: tuple[str, ...] = tuple(REMEDIES)
    cells: tuple[tuple[str, str], ...] | None = None
    num_seeds: int = 12
    first_seed: int = 3001
    smoke: bool = False

    def __post_init__(self) -> None:
        require_choice("--start", self.start, STARTS)
        require_choice("--network", self.network, ARCHITECTURES)
        for fault in self.faults:
            require_choice("--faults", fault, (*CAUSES, SOUND))
        for name in self.remedies:
            remedy_of(name)
        for what, names in (("--faults", self.faults), ("--remedies", self.remedies)):
            require(bool(names), f"{what} is empty: name one at least")
            require(len(set(names)) == len(names), f"{what} gives a name twice: give each once")
        require_count("--seeds", self.num_seeds, 2, "one seed says nothing about the spread")
        require(
            not set(self.seeds) & set(HARM_SEEDS),
            f"seeds {self.seeds[0]} to {self.seeds[-1]} hold some of {HARM_SEEDS}, which decide whether a fault does "
            "harm and are never reported: choose another --first-seed",
        )

    @property
    def seeds(self) -> tuple[int, ...]:
        """The reported seeds."""
        return tuple(range(self.first_seed, self.first_seed + self.num_seeds))


def run_matrix(
    plan: RemedyPlan, out: Path, executor: Executor, *, retry_failed: bool = False
) -> dict[str, Any]:  # fmt: skip
    """The rows of every trial, as JSON values; what is in `out` already is not run again.

    Args:
        plan: the matrix.
        out: its folder.
        executor: runs the trials.
        retry_failed: run the trials that failed in an earlier call again.

    Raises:
        RunFolderError: the folder is in use, or was begun with other settings (GridError).
        StoppedError: a signal came; the same call continues.
    """

    def rows_of(
        keys: Iterable[Key], folder: Path, seeds: tuple[int, ...]
    ) -> tuple[Trials, list[str], set[str]]:
        """({(fault, remedy): rows}, lines on the trials that failed, commits that ran them)."""
        runs = {key: _grid_run(plan, key, folder, seeds) for key in keys}
        grid = run_grid(list(runs.values()), folder, executor, retry_failed=retry_failed)
        if grid.stopped_by is not None:
            raise StoppedError(grid)
        results = {key: result for key, run in runs.items() if (result := run.result()) is not None}
        commits = {str((result["git"] or {}).get("commit")) for result in results.values()}
        return {key: result["rows"] for key, result in results.items()}, grid.lines(), commits

    faults = [fault for fault in plan.faults if fault != SOUND]
    sides = [(fault, side) for fault in faults for side in (UNTREATED, TWIN)]
    print(f"which faults do harm, on seeds {', '.join(map(str, HARM_SEEDS))}")
    found, broken, before = rows_of(sides, out / "harm", HARM_SEEDS)
    harm = {fault: _harm(found, fault) for fault in faults}
    harmful = [fault for fault in faults if plan.smoke or (harm[fault] or 0.0) > HARM]
    print(f"harmful: {', '.join(harmful) or 'none'}")
    skipped: dict[str, dict[str, str]] = {}
    keys = []
    for fault in (*harmful, *({SOUND} & set(plan.faults))):
        keys += [(fault, UNTREATED), *([(fault, TWIN)] if fault != SOUND else [])]
        for remedy in plan.remedies:
            if plan.cells is not None and (fault, remedy) not in plan.cells:
                continue
            try:
                Trial(fault, remedy, plan.network, plan.start, plan.smoke).config(plan.first_seed)
            except ValueError as error:
                skipped.setdefault(fault, {})[remedy] = str(error)
            else:
                keys.append((fault, remedy))
        tried = sum(each == fault and remedy in plan.remedies for each, remedy in keys)
        if tried and plan.num_seeds < (needed := minimum_seeds(tried)):
            print(
                f"{fault}: {plan.num_seeds} seeds are too few for a cure among {tried} remedies, which takes {needed}"
            )
    rows, more, commits = rows_of(keys, out / "trials", plan.seeds)
    trials: dict[str, dict[str, Any]] = {}
    for (fault, remedy), each in rows.items():
        trials.setdefault(fault, {})[remedy] = each
    return {
        "plan": dataclasses.asdict(plan),
        "seeds": list(plan.seeds),
        "harm_seeds": list(HARM_SEEDS),
        "harm": harm,
        "trials": trials,
        "skipped": skipped,
        "broken": broken + more,
        "commits": sorted(before | commits),
    }


def _grid_run(plan: RemedyPlan, key: Key, out: Path, seeds: tuple[int, ...]) -> GridRun:
    fault, remedy = key
    where = ("--start", plan.start, "--network", plan.network)
    of = ("--first-seed", str(seeds[0]), "--seeds", str(len(seeds)))
    small = ("--smoke",) if plan.smoke else ()
    name = re.sub(r"[^\w.+-]", "-", f"{fault}+{remedy}")
    words = "remedies", "trial", fault, remedy, *where, *of, *small
    return GridRun(name, words, out / name, resume=False)


def _harm(rows: Trials, fault: str) -> float | None:
    """By what share of its first regret the fault's runs end above their twins; None where runs are missing."""
    on, off = (
        {row["seed"]: row for row in rows.get((fault, side), ()) if "end_cp" in row}
        for side in (UNTREATED, TWIN)
    )
    shares = [(on[s]["end_cp"] - off[s]["end_cp"]) / on[s]["start_cp"] for s in {*on} & {*off}]
    return round(statistics.mean(shares), 4) if shares else None
