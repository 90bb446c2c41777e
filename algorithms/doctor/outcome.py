"""The outcome of a run, before any cause: whether it learned, and what happened to its entropy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from algorithms.doctor.metric_rows import MetricRows, is_finite

LEARNING, NOT_LEARNING, WORSE, UNKNOWN = (
    "learning",
    "not learning",
    "getting worse",
    "cannot tell",
)
KEPT, SPENT, LOST, FORCED_UP = (
    "kept",
    "spent on learning",
    "lost without return",
    "forced up",
)

CHANCE_CP = {"eval/regret_cp": 384.4}
"""Regret of the uniform policy on the held-out positions; tests compare it with the table."""

LEAST_CHANGE = 0.03
"""A change of regret below this share of its start is none: two looks at one policy differ by as much."""

LEARNED = 0.10
"""A fall of regret by this share of its start is learning, if it is no scatter."""

TURNED = 0.10
"""A rise from the lowest regret by this share of the start means that the run gets worse."""

LOSS = 0.25
"""Entropy that fell by less than this share of its start is kept."""

RETURN = 0.18
"""Regret that fell by less than this part of what entropy fell by (both as shares) is no return."""


@dataclasses.dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run.

    Attributes:
        learning: `LEARNING`, `NOT_LEARNING`, `WORSE` or `UNKNOWN`.
        entropy: `KEPT`, `SPENT`, `LOST`, `FORCED_UP` or `UNKNOWN`.
        regret_cp: held-out regret at the first and at the last evaluation, centipawns; NaN where unknown.
        interval: 95 % interval of the change of regret as a share of its start; NaN where unknown.
        turned_at: the evaluated step with the lowest regret, where the regret rose after it; else None.
        entropy_nats: entropy at the first and at the last evaluation.
        notes: sentences on the cost.
    """

    learning: str
    entropy: str
    regret_cp: tuple[float, float]
    interval: tuple[float, float]
    turned_at: int | None
    entropy_nats: tuple[float, float]
    notes: tuple[str, ...]

    @property
    def change(self) -> float:
        """Change of regret as a share of its start; NaN where unknown."""
        before, after = self.regret_cp
        return after / before - 1 if before > 0 else math.nan

    @property
    def is_poor(self) -> bool:
        """Whether the run did not learn, got worse, or lost its entropy without return."""
        return self.learning in (NOT_LEARNING, WORSE) or self.entropy == LOST

    def to_dict(self) -> dict[str, object]:
        """JSON values; null where unknown."""

        def known(values: Sequence[float]) -> list[float] | None:
            found = [round(value, 4) for value in values]
            return found if all(map(math.isfinite, found)) else None

        return {
            "learning": self.learning,
            "entropy": self.entropy,
            "regret_cp": known(self.regret_cp),
            "regret_change_95": known(self.interval),
            "entropy_nats": known(self.entropy_nats),
            "turned_at": self.turned_at,
            "notes": list(self.notes),
        }


def outcome_of(record: MetricRows) -> RunOutcome:
    """The outcome of a record; `UNKNOWN` where it has fewer than two evaluations."""
    evaluations = [
        (int(row["step"]) if is_finite(row, "step") else 0, float(row["eval/regret_cp"]))  # type: ignore[arg-type]
        for row in record.rows
        if is_finite(row, "eval/regret_cp")
    ]
    values = [value for _, value in evaluations]
    entropy = _ends(record.series("eval/entropy")) or _ends(record.series("policy/entropy"))
    nats = entropy or (math.nan, math.nan)
    if len(values) < 2 or not values[0] > 0:
        unknown = (math.nan, math.nan)
        word = UNKNOWN if entropy is None else KEPT if nats[1] > (1 - LOSS) * nats[0] else UNKNOWN
        return RunOutcome(UNKNOWN, word, unknown, unknown, None, nats, ())
    before, after = values[0], values[-1]
    half = 1.96 * math.sqrt(2) * noise_cp(values) / before
    change = after / before - 1
    interval = (change - half, change + half)
    lowest = int(np.argmin(values))
    rise = (after - values[lowest]) / before
    turned = rise > TURNED + half and lowest < len(values) - 2
    if interval[0] > LEAST_CHANGE or turned:
        learning = WORSE
    elif interval[1] < -LEAST_CHANGE:
        learning = LEARNING
    elif change < -LEAST_CHANGE and interval[0] < -LEARNED:
        learning = UNKNOWN  # the evaluations scatter too much
    else:
        learning = NOT_LEARNING
    word = _entropy_word(nats, change, learning) if entropy else UNKNOWN
    notes = _notes(record, word, change)
    turned_at = evaluations[lowest][0] if turned and lowest else None
    return RunOutcome(learning, word, (before, after), interval, turned_at, nats, notes)


def noise_cp(values: Sequence[float]) -> float:
    """Standard deviation of one evaluation about the curve, centipawns, from its second differences.

    At least half a per cent of the first value: with few evaluations the differences say little.
    """
    floor = 0.005 * values[0]
    if len(values) < 4:
        return 3 * floor
    second = np.diff(values, 2)
    return max(floor, 1.4826 * float(np.median(np.abs(second))) / math.sqrt(6))


def _entropy_word(nats: tuple[float, float], change: float, learning: str) -> str:
    kept = nats[1] / nats[0] if nats[0] > 0 else math.nan
    if kept > 1.1 and learning != LEARNING:
        return FORCED_UP
    if not kept < 1 - LOSS:
        return KEPT
    return SPENT if learning == LEARNING and -change > RETURN * (1 - kept) else LOST


def _notes(record: MetricRows, entropy: str, change: float) -> tuple[str, ...]:
    notes = []
    sampled, greedy = record.last("eval/regret_cp"), record.last("eval/regret_cp_greedy")
    pass8 = _ends(record.series("eval/pass_at_8"))
    if entropy == LOST and pass8 is not None:
        notes.append(
            f"pass@8 went from {pass8[0]:.2f} to {pass8[1]:.2f}: what the policy no longer samples it "
            "cannot find"
        )
    if entropy in (FORCED_UP, KEPT) and greedy < 0.7 * sampled and change > -0.1:
        notes.append(
            f"the most probable move costs {greedy:.0f} cp and a sampled one {sampled:.0f}: the policy "
            "knows more than it plays"
        )
    start, chance = record.first("eval/regret_cp"), CHANCE_CP["eval/regret_cp"]
    if sampled > 0.97 * chance:
        notes.append(f"held-out regret ends at {sampled:.0f} cp; a random policy has {chance:.0f}")
    elif change > -LEAST_CHANGE and start < 0.5 * chance:
        notes.append(
            f"the run starts at {start:.0f} cp, where a random policy has {chance:.0f}: there may be "
            "little left to learn in it"
        )
    return tuple(notes)


def _ends(values: Sequence[float]) -> tuple[float, float] | None:
    return (values[0], values[-1]) if len(values) >= 2 else None
