"""Makes the JSON record of an open question from the comparison that was run for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.comparison.readings import RunSummary
from algorithms.reports.pairwise import Comparison, compare
from algorithms.reports.statistics import Scores, interquartile_mean

LEVELS = (90, 80, 70, 60, 50, 40, 35)
"""Percent of the starting regret at which entropy is read."""

Runs = Mapping[str, Sequence[RunSummary]]
"""Label of a column -> its usable runs, by seed."""


def answer(values: Mapping[str, Any], base: str, label: Callable[[str], str]) -> dict[str, Any]:
    """What a comparison says of the columns beside one of them, as JSON values.

    Args:
        values: of comparison.json.
        base: label of the column that the others are compared with.
        label: of a column's name.
    """
    runs: dict[str, list[RunSummary]] = {}
    fields = {field.name for field in dataclasses.fields(RunSummary)}
    for cell in values["cells"]:
        reading = RunSummary(**{name: value for name, value in cell.items() if name in fields})
        runs.setdefault(label(reading.column), []).append(reading)
    return {
        "base": base,
        "seeds": [run.seed for run in runs.get(base, [])],
        "columns": {name: column(own) for name, own in runs.items()},
        "against_base": against(base, runs) if base in runs else {},
        "broken": values["broken"],
        "commits": values["provenance"]["commits_of_the_runs"],
        "calibration": values["calibration"],
    }


def column(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """A column's figures over its seeds; entropy and its price at every level that all of them reach."""
    reached = [level for level in LEVELS if all(run.entropy_at(level) is not None for run in runs)]
    return {
        "seeds": len(runs),
        "percent_of_start": spread([run.percent_of_start for run in runs]),
        "entropy_end": spread([run.entropy[-1] for run in runs]),
        "nats_per_100_cp": {str(at): spread([price(run, at) for run in runs]) for at in reached},
    }


def price(run: RunSummary, percent: float) -> float:
    """Entropy lost per 100 cp of held-out regret gained, from the start to `percent` of its regret.

    Raises:
        ValueError: it never came down so far.
    """
    there = run.entropy_at(percent)
    if there is None:
        raise ValueError(f"{run.column}, seed {run.seed} never reaches {percent} % of its start")
    return 100 * (run.entropy[0] - there) / (run.regret_cp[0] * (1 - percent / 100))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Interquartile mean, lowest and highest over seeds."""
    return {"iqm": float(interquartile_mean(values)), "low": min(values), "high": max(values)}


def against(base: str, runs: Runs) -> dict[str, dict[str, Any]]:
    """{quantity: {label: difference from the base}} of the columns that have all of the base's seeds.

    The price of entropy is compared at the deepest level that all runs of both columns reach.
    """
    seeds = [run.seed for run in runs[base]]
    others = [name for name, own in runs.items() if name != base and [r.seed for r in own] == seeds]
    ends: dict[str, Pairs] = {"percent_of_start": {}, "entropy_end": {}, "nats_per_100_cp": {}}
    for name in others:
        both = runs[name], runs[base]
        for quantity, value in (("percent_of_start", percent), ("entropy_end", entropy_end)):
            ours, theirs = ([value(run) for run in own] for own in both)
            ends[quantity][name] = None, ours, theirs
        common = [at for at in LEVELS if all(r.entropy_at(at) is not None for o in both for r in o)]
        if common:
            ours, theirs = ([price(run, min(common)) for run in own] for own in both)
            ends["nats_per_100_cp"][name] = min(common), ours, theirs
    return {quantity: differences(pairs, seeds) for quantity, pairs in ends.items()}


Pairs = dict[str, tuple[int | None, Sequence[float], Sequence[float]]]
"""Label -> (level in percent or None, values of the column, values of the base), by seed."""


def differences(pairs: Pairs, seeds: Sequence[int]) -> dict[str, dict[str, Any]]:
    """{label: difference from the base, its 95 % interval, seeds on which it is higher or lower}.

    `p_adjusted` is corrected for all labels together; the interval is of each alone. Empty with
    fewer than two seeds, which have no spread.
    """
    if len(seeds) < 2 or not pairs:
        return {}
    scores = []
    for name, (_, ours, theirs) in pairs.items():
        scores.append(Scores(name, tuple(seeds), np.array(ours)))
        scores.append(Scores(f"base of {name}", tuple(seeds), np.array(theirs)))
    found = compare(
        scores, higher_is_better=True, pairs=[(name, f"base of {name}") for name in pairs]
    )
    return {each.ours: {"level_percent": pairs[each.ours][0], **_kept(each)} for each in found}


def percent(run: RunSummary) -> float:
    """Last held-out regret in percent of the first."""
    return run.percent_of_start


def entropy_end(run: RunSummary) -> float:
    """Last held-out entropy, nats."""
    return run.entropy[-1]


def _kept(each: Comparison) -> dict[str, Any]:
    return {
        "difference": each.difference,
        "low": each.interval.low,
        "high": each.interval.high,
        "higher": each.ours_higher,
        "lower": each.theirs_higher,
        "p_adjusted": each.p_adjusted,
    }
