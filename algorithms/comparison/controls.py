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


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a control.

    Attributes:
        control: the pair.
        seeds: that both ran.
        early_percent: largest difference in held-out regret at the first evaluation after the start,
            percent of the start.
        largest_percent: the largest at any evaluation.
        largest_entropy: the largest difference in held-out entropy at any evaluation, nats.
        coincides: whether they are equal, or early_percent is within `EARLY_PERCENT` where rounding
            may make them differ.
    """

    control: Control
    seeds: tuple[int, ...]
    early_percent: float
    largest_percent: float
    largest_entropy: float
    coincides: bool

    def sentence(self) -> str:
        """The verdict in words."""
        pair = f"{self.control.ours} and {self.control.theirs} ({self.control.because})"
        if self.largest_percent == self.largest_entropy == 0:
            return f"{pair} are identical on seeds {self.seeds}."
        verb = "coincide" if self.coincides else "DO NOT COINCIDE"
        return (
            f"{pair} {verb} on seeds {self.seeds}: held-out regret differs by at most "
            f"{self.early_percent:.2g} % of the start at the first evaluation and "
            f"{self.largest_percent:.2g} % at any, entropy by {self.largest_entropy:.2g} nats."
        )


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


def judge(
    control: Control, ours: Sequence[RunSummary], theirs: Sequence[RunSummary]
) -> Verdict | None:
    """The verdict on a control; None where no seed ran on both sides."""
    by_seed = {each.seed: each for each in theirs}
    pairs = [(each, by_seed[each.seed]) for each in ours if each.seed in by_seed]
    if not pairs:
        return None
    regret = [
        100 * np.abs(np.subtract(a.regret_cp, b.regret_cp)) / a.regret_cp[0] for a, b in pairs
    ]
    entropy = [np.abs(np.subtract(a.entropy, b.entropy)) for a, b in pairs]
    early = max(float(row[1]) for row in regret)
    largest = max(float(row.max()) for row in regret)
    apart = max(float(row.max()) for row in entropy)
    coincides = largest == apart == 0 if control.exact else early <= EARLY_PERCENT
    seeds = tuple(a.seed for a, _ in pairs)
    return Verdict(control, seeds, early, largest, apart, coincides)


def judged(
    controls: Sequence[Control], readings: dict[str, dict[int, RunSummary]]
) -> list[dict[str, Any]]:
    """Verdicts on the controls as JSON values; one that cannot be judged says so."""
    found = []
    for control in controls:
        ours, theirs = (list(readings.get(n, {}).values()) for n in (control.ours, control.theirs))
        verdict = judge(control, ours, theirs)
        if verdict is None:
            sentence = f"{control.ours} and {control.theirs}: no seed ran in both."
            found.append({"coincides": None, "sentence": sentence})
        else:
            found.append({**dataclasses.asdict(verdict), "sentence": verdict.sentence()})
    return found
