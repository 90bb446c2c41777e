"""What may be claimed of the runs that are found in a folder."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.comparison.readings import RunSummary, UnreadableError, summary_of
from algorithms.comparison.result import analyse
from algorithms.reports.run_files import RunRecord
from algorithms.run_folder.rows import MAX_STEP

MAX_COLUMNS = 12
"""Of one analysis: twelve make 66 pairs, whose correction asks for 12 seeds."""


def compare_found(columns: Mapping[str, Sequence[RunRecord]]) -> dict[str, Any] | None:
    """JSON values of one family, as `chess-lab compare` writes them; None where there is nothing to compare.

    A run that has not spent its budget is left out and named, and so is one whose seed ran more than
    once in its column.

    Args:
        columns: name -> its runs; all of one task (`algorithms.reports.tasks`).
    """
    seeds = sorted({run.seed for runs in columns.values() for run in runs if run.seed is not None})
    if not 2 <= len(columns) <= MAX_COLUMNS or len(seeds) < 2:
        return None  # of one seed the headline says that a difference may be chance
    readings: dict[str, dict[int, RunSummary]] = {}
    left_out = []
    for name, runs in columns.items():
        times = Counter(run.seed for run in runs)
        for run in runs:
            try:
                reading = _reading(run, name, times[run.seed])
            except UnreadableError as error:
                left_out.append(f"{run.name} is left out: {error}")
            else:
                readings.setdefault(name, {})[reading.seed] = reading
    family = analyse(list(columns), readings, seeds)
    return family | {"left_out": [*left_out, *family["left_out"]]}


def _reading(run: RunRecord, column: str, times: int) -> RunSummary:
    """The run's; UnreadableError where it is not finished or not the only one of its seed."""
    if run.seed is None:
        raise UnreadableError("its seed is not on record")
    if times > 1:
        raise UnreadableError(f"seed {run.seed} ran {times} times in {column}")
    budget = run.config.get("total_moves")
    if not isinstance(budget, int) or isinstance(budget, bool) or budget >= MAX_STEP:
        raise UnreadableError("its budget is not on record")
    spent = run.series("step")
    largest = np.max(np.diff(spent.scored_moves) / np.diff(spent.step), initial=0.0)
    # A run ends where the next rollout could overdraw the budget.
    if not budget - spent.scored_moves[-1] <= largest:
        last = f"{spent.scored_moves[-1]:,.0f}"
        raise UnreadableError(f"its record ends at {last} of its {budget:,} scored moves")
    if run.series("eval/regret_cp").step[-1:].tolist() != [spent.step[-1]]:
        raise UnreadableError("it was not evaluated at its end")
    evaluator = str(run.environment.get("evaluator"))
    reading = summary_of(run.rows, column, run.seed, evaluator)
    return dataclasses.replace(reading, budget_moves=budget)
