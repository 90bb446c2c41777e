"""From the readings of a comparison to what may be claimed, as JSON values and as text."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.comparison.readings import (
    LEVELS,
    RunSummary,
    UnreadableError,
    matched_level,
    summary_of,
)
from algorithms.reports.pairwise import Comparison, claims, compare
from algorithms.reports.run_files import RunRecord
from algorithms.reports.statistics import Scores, difference_interval
from algorithms.reports.statistics import interquartile_mean as iqm
from algorithms.run_folder.run_log import MAX_STEP

MATCHED = "held-out entropy (nats)"
FINAL = "final held-out regret (% of the start)"

MAX_COLUMNS = 12
"""Of one analysis of runs that are found: twelve make 66 pairs, whose correction asks for 12 seeds."""

Readings = Mapping[str, Mapping[int, RunSummary]]
"""Column -> seed -> reading; broken cells are not in it."""


def analyse(columns: Sequence[str], readings: Readings, seeds: Sequence[int]) -> dict[str, Any]:
    """JSON values of one family of columns, which are compared pair by pair on common seeds.

    A column with fewer than two usable seeds, of several, is left out. A seed on which a cell of the
    others is broken is left out of all of them, since pairs need common seeds.

    Args:
        columns: of the family.
        readings: of the usable cells.
        seeds: that were asked for.
    """
    own = {name: readings.get(name, {}) for name in columns}
    kept = [name for name in columns if len(own[name]) >= min(2, len(seeds))]
    common = [seed for seed in seeds if all(seed in own[name] for name in kept)] if kept else []
    notes = [f"{name} is left out: {len(own[name])} of its {len(seeds)} seeds are usable"
             for name in columns if name not in kept]  # fmt: skip
    lost = [seed for seed in seeds if seed not in common]
    if kept and lost:
        notes.append(f"seeds {lost} are left out of all columns: a run is missing or broken there")
    chosen = {name: [own[name][seed] for seed in common] for name in kept}
    return {
        "seeds": common,
        "left_out": notes,
        "columns": [_column(name, chosen[name]) for name in kept if common],
        "quantities": [_matched(chosen), _final(chosen)],
    }


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


def _column(name: str, runs: Sequence[RunSummary]) -> dict[str, Any]:
    """Its two final figures, with interquartile means and intervals over seeds."""
    shares = [run.grad_share for run in runs if run.grad_share is not None]
    return {
        "name": name,
        "percent_of_start": _spread([run.percent_of_start for run in runs]),
        "entropy": _spread([run.entropy[-1] for run in runs]),
        "entropy_at_percent": {
            str(level): _spread([run.entropy_at(level) for run in runs]) for level in LEVELS
        },
        "grad_share": float(iqm(shares)) if shares else None,
        "ended_by": {str(run.seed): run.ended_by for run in runs if run.ended_by is not None},
    }


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    """Interquartile mean and interval of the seeds that have the value."""
    there = [value for value in values if value is not None]
    interval = difference_interval(there) if len(there) > 1 else None
    return {
        "iqm": float(iqm(there)) if there else None,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "seeds": len(there),
    }


def _matched(runs: Mapping[str, Sequence[RunSummary]]) -> dict[str, Any]:
    """Entropy where both columns of a pair have come down to the same share of the starting regret.

    The level is chosen by regret alone, so the choice cannot favour a column's entropy.
    """
    columns: dict[str, Scores] = {}
    pairs, levels, notes = [], {}, []
    for ours, theirs in itertools.combinations(runs, 2):
        level = matched_level(runs[ours], runs[theirs])
        levels[f"{ours} | {theirs}"] = level
        if level is None:
            notes.append(
                f"{ours} against {theirs}: nothing, because not all runs of both fall to "
                f"{max(LEVELS)} % of their starting regret."
            )
            continue
        names = [f"{name} (at {level} % of the starting regret)" for name in (ours, theirs)]
        for name, label in zip((ours, theirs), names, strict=True):
            _add(columns, label, runs[name], [run.entropy_at(level) for run in runs[name]])
        pairs.append((names[0], names[1]))
    quantity = f"{MATCHED} at matched held-out regret"
    return _compared(quantity, MATCHED, columns, pairs, runs, higher=True) | {
        "level_percent": levels,
        "not_compared": notes,
    }


def _final(runs: Mapping[str, Sequence[RunSummary]]) -> dict[str, Any]:
    """Regret at the end of the budget."""
    columns: dict[str, Scores] = {}
    for name, own in runs.items():
        _add(columns, name, own, [run.percent_of_start for run in own])
    pairs = list(itertools.combinations(columns, 2))
    return _compared(FINAL, FINAL, columns, pairs, runs, higher=False) | {"not_compared": []}


def _add(
    columns: dict[str, Scores],
    name: str,
    runs: Sequence[RunSummary],
    values: Sequence[float | None],
) -> None:
    """Adds a column of at least two seeds."""
    if len(runs) > 1:
        seeds = tuple(run.seed for run in runs)
        columns[name] = Scores(name, seeds, np.array(values, dtype=np.float64))


def _compared(
    title: str,
    quantity: str,
    columns: Mapping[str, Scores],
    pairs: Sequence[tuple[str, str]],
    runs: Mapping[str, Sequence[RunSummary]],
    *,
    higher: bool,
) -> dict[str, Any]:
    """The comparisons of one quantity, corrected together, and what they allow one to say."""
    found: tuple[Comparison, ...] = ()
    if len(columns) < 2:
        why = "no two columns reach a common level of regret; more moves may (--budget-moves)"
        if len(runs) < 2:
            why = "a comparison needs two columns"
        elif any(len(each) < 2 for each in runs.values()):
            why = "a comparison needs two seeds that ran in both columns"
        said: tuple[str, ...] = (f"nothing: {why}.",)
    else:
        found = compare(list(columns.values()), higher_is_better=higher, pairs=pairs)
        said = claims(found, quantity=quantity)
    return {
        "quantity": title,
        "higher_is_better": higher,
        "comparisons": [dataclasses.asdict(each) for each in found],
        "claims": list(said),
    }


def family_lines(name: str, family: Mapping[str, Any]) -> list[str]:
    """The family as a table and its claims, for people."""
    lines = [f"== {name}: {len(family['seeds'])} seeds {family['seeds']}", *family["left_out"]]
    rows = [
        [
            "column",
            "regret, % of start",
            "entropy, nats",
            "ent_coef",
            "learning_rate",
            "bonus share",
        ]
    ]
    for column in family["columns"]:
        rows.append([
            column["name"],
            _interval(column["percent_of_start"], 1),
            _interval(column["entropy"], 2),
            _figure(column.get("ent_coef"), "{:.3g}"),
            _figure(column.get("learning_rate"), "{:g}"),
            _figure(column["grad_share"], "{:.2f}"),
        ])  # fmt: skip
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    for quantity in family["quantities"]:
        whole, *pairs = quantity["claims"]
        lines += ["", f"What may be claimed about {quantity['quantity']}:", f"  {whole}"]
        lines += [f"  {sentence}" for sentence in (*pairs, *quantity["not_compared"])]
    return [*lines, ""]


def _interval(spread: Mapping[str, Any], digits: int) -> str:
    if spread["iqm"] is None:
        return "-"
    if spread["low"] is None:
        return f"{spread['iqm']:.{digits}f}"
    low, high = (f"{spread[end]:.{digits}f}" for end in ("low", "high"))
    return f"{spread['iqm']:.{digits}f} [{low}, {high}]"


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
