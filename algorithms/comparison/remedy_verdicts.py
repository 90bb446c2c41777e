"""From the rows of the matrix of faults and remedies to verdicts: cures, helps, nothing, harms, cannot tell."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.collapse.trial import SOUND, TWIN, UNTREATED
from algorithms.reports.statistics import (
    ALPHA,
    Interval,
    difference_interval,
    holm,
    interquartile_mean,
    sign_flip_p,
)

MARGIN_CP = 10.0
"""Two ends closer than this count as equal; fixed before the runs. Seeds of a sound run spread by 3 to 5."""

LEAST_SEEDS = 6
"""Of fewer seeds that both ran nothing is said."""

Verdict = Literal["cures", "helps", "nothing", "harms", "cannot tell"]
Rows = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Effect:
    """What a remedy does against a fault.

    Attributes:
        remedy: its name.
        verdict: "cures" (better than untreated, and no more than `MARGIN_CP` above the twin), "helps" (better than
            untreated), "harms" (worse), "nothing" (within `MARGIN_CP` of untreated), "cannot tell". Better and worse
            are said where the adjusted p-value is at most `ALPHA` and the interval excludes 0.
        change_cp: interquartile mean over the seeds of the regret at the end, treated minus untreated.
        interval: its 95 % interval; None where too few seeds can be compared.
        p_value: of no change, adjusted for all remedies of the fault.
        above_twin_cp: treated minus twin; NaN for the sound run, which is its own twin.
        entropy: at the end, mean over the seeds, nats.
        pass_at_8: at the end, likewise.
        seeds: that both ran.
    """

    remedy: str
    verdict: Verdict
    change_cp: float
    interval: Interval | None
    p_value: float
    above_twin_cp: float
    entropy: float
    pass_at_8: float
    seeds: int

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        ends = None if self.interval is None else [self.interval.low, self.interval.high]
        values = dataclasses.asdict(self) | {"interval": ends}
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in values.items()
        }


def effects(trials: Mapping[str, Rows], fault: str) -> list[Effect]:
    """What each remedy does against one fault, in the order of the trials.

    Args:
        trials: remedy -> rows of the fault, those of `UNTREATED` and (but for `SOUND`) `TWIN` among them.
        fault: its name.
    """
    untreated = trials[UNTREATED]
    twin = untreated if fault == SOUND else trials[TWIN]
    names = [name for name in trials if name not in (UNTREATED, TWIN)]
    changes = {name: paired(trials[name], untreated) for name in names}
    told = [name for name in names if len(changes[name]) >= LEAST_SEEDS]
    raw = [float(sign_flip_p(changes[name])) for name in told]
    p_values = dict(zip(told, map(float, holm(raw)), strict=True)) if told else {}
    found = []
    for name in names:
        above = paired(trials[name], twin)
        ends = [row for row in trials[name] if "end_cp" in row]
        change = changes[name]
        interval = difference_interval(change) if name in told else None
        p_value = p_values.get(name, 1.0)
        found.append(
            Effect(
                remedy=name,
                verdict=verdict_of(change, interval, p_value, above),
                change_cp=float(interquartile_mean(change)) if len(change) else np.nan,
                interval=interval,
                p_value=p_value,
                above_twin_cp=float(interquartile_mean(above)) if fault != SOUND and len(above) else np.nan,
                entropy=float(np.mean([row["entropy"] for row in ends])) if ends else np.nan,
                pass_at_8=float(np.mean([row["pass_at_8"] for row in ends])) if ends else np.nan,
                seeds=len(change),
            )
        )  # fmt: skip
    return found


def paired(ours: Rows, theirs: Rows) -> NDArray[np.float64]:
    """`[S]` regret at the end, ours minus theirs, on the seeds on which neither broke; cp."""
    other = {row["seed"]: row["end_cp"] for row in theirs if "end_cp" in row}
    return np.array(
        [row["end_cp"] - other[row["seed"]] for row in ours if "end_cp" in row and row["seed"] in other]
    )  # fmt: skip


def verdict_of(
    change: NDArray[np.float64],
    interval: Interval | None,
    p_value: float,
    above_twin: NDArray[np.float64],
) -> Verdict:
    """In a word, as `Effect.verdict` has it."""
    if interval is None:
        return "cannot tell"
    if interval.low > -MARGIN_CP and interval.high < MARGIN_CP:
        return "nothing"
    if p_value > ALPHA or not interval.excludes(0.0):
        return "cannot tell"
    if interval.low > 0:
        return "harms"
    return "cures" if difference_interval(above_twin).high < MARGIN_CP else "helps"
