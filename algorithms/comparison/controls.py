"""Columns that must be equal: their difference is the noise floor of the whole comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.collapse.cause import applied
from algorithms.comparison.plan import Plan
from algorithms.comparison.readings import RunSummary
from algorithms.comparison.variants import (
    CONTROL,
    NO_BONUS,
    Variant,
    base_config,
    moves_per_update,
    with_intervals,
)

EARLY_PERCENT = 0.1
"""Largest difference in held-out regret, percent of the start, at the first evaluation after it."""

ONE_STEP_UPDATES = 16
"""Updates of runs that differ by rounding alone: once rounding changes a sampled move, they differ for good."""


@dataclasses.dataclass(frozen=True)
class Control:
    """Two variants that must be equal.

    Attributes:
        ours, theirs: their names.
        because: why.
        exact: whether they must be equal to the last bit.
    """

    ours: str
    theirs: str
    because: str
    exact: bool


def make_controls(
    plan: Plan, variants: Sequence[Variant], *, cache: Path | None
) -> tuple[tuple[Variant, ...], tuple[Control, ...]]:
    """(the variants that the controls add, their pairs).

    Args:
        plan: the comparison.
        variants: of the presets; the first is run once more.
        cache: file of the shared evaluation cache, or None.
    """
    first = variants[0]
    again = dataclasses.replace(first, name="control+again", base="control+again", family=CONTROL)
    pairs = [Control(first.name, again.name, "the same run twice", exact=True)]
    added = [again]
    if plan.form == "positions":  # in games these weigh a game's plies differently
        added += [_one_step(plan, name, cache) for name in ("dr_grpo", "cispo", "rloo")]
        reasons = {
            "cispo": "one step on each batch, where no ratio has left 1",
            "rloo": "one step on each batch; advantages times G / (G - 1), which Adam removes",
        }
        pairs += [
            Control("control+dr_grpo", f"control+{name}", because, exact=False)
            for name, because in reasons.items()
        ]
    return tuple(added), tuple(pairs)


def _one_step(plan: Plan, preset: str, cache: Path | None) -> Variant:
    """A short run of a preset without bonus, evaluated after every update.

    Without the limit on the gradient's norm, which is no factor that Adam removes.
    """
    config = base_config(plan, preset, cache=cache)
    settings = {
        **NO_BONUS,
        "optimizer.max_grad_norm": 1e9,
        "total_moves": min(plan.budget_moves, ONE_STEP_UPDATES * moves_per_update(config)),
    }
    config = with_intervals(applied(config, settings))
    return Variant(f"control+{preset}", f"control+{preset}", CONTROL, config)


def judged(
    controls: Sequence[Control], readings: dict[str, dict[int, RunSummary]]
) -> list[dict[str, Any]]:
    """Verdicts on the controls as JSON values; one that cannot be judged says so."""
    found = []
    for control in controls:
        ours, theirs = (readings.get(name, {}) for name in (control.ours, control.theirs))
        pairs = [(each, theirs[seed]) for seed, each in ours.items() if seed in theirs]
        if pairs:
            found.append(_verdict(control, pairs))
        else:
            sentence = f"{control.ours} and {control.theirs}: no seed ran in both."
            found.append({"coincides": None, "sentence": sentence})
    return found


def _verdict(control: Control, pairs: Sequence[tuple[RunSummary, RunSummary]]) -> dict[str, Any]:
    """How far the two are apart: held-out regret in percent of the start, held-out entropy in nats."""
    regret = [
        100 * np.abs(np.subtract(a.regret_cp, b.regret_cp)) / a.regret_cp[0] for a, b in pairs
    ]
    entropy = [np.abs(np.subtract(a.entropy, b.entropy)) for a, b in pairs]
    early = max(float(row[1]) for row in regret)  # at the first evaluation after the start
    largest = max(float(row.max()) for row in regret)
    apart = max(float(row.max()) for row in entropy)
    identical = largest == apart == 0
    # Where rounding may make the two differ, it needs time to.
    coincides = identical if control.exact else early <= EARLY_PERCENT
    seeds = tuple(a.seed for a, _ in pairs)
    sentence = f"{control.ours} and {control.theirs} ({control.because}) "
    if identical:
        sentence += f"are identical on seeds {seeds}."
    else:
        sentence += (
            f"{'coincide' if coincides else 'DO NOT COINCIDE'} on seeds {seeds}: held-out regret differs by at most "
            f"{early:.2g} % of the start at the first evaluation and {largest:.2g} % at any, entropy by "
            f"{apart:.2g} nats."
        )
    return {
        "control": dataclasses.asdict(control),
        "seeds": seeds,
        "early_percent": early,
        "largest_percent": largest,
        "largest_entropy": apart,
        "coincides": coincides,
        "sentence": sentence,
    }
