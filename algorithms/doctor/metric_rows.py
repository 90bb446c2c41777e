"""A run's record as the doctor reads it: updates, evaluations, windows, where an episode begins; and the outcome.

The outcome comes before any cause: whether the run learned, and what happened to its entropy.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from algorithms.reports.run_files import Rows

UPDATE_PREFIXES = ("train/", "policy/", "rollout/", "ratio/", "reg/", "clip/")
"""A row with a name under one of these describes an update, also where its numbers are null."""

NEVER_TWICE = ("policy/entropy", "rollout/reward_mean")
"""Two updates in a row do not have the same of both: a record in which many do was filled in."""

Point = tuple[int, float]
"""(number of the update, value); updates count from 1."""


class Episode:
    """A stretch of updates in which something holds nearly always.

    Attributes:
        since: the update at which it begins.
        until: the last one.
        values: the measurements in it.
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self.since, self.until = points[0][0], points[-1][0]
        self.values = [value for _, value in points]

    @property
    def median(self) -> float:
        """The median of its values."""
        return float(np.median(self.values))


@dataclasses.dataclass(frozen=True)
class MetricRows:
    """The rows of a run's metrics.jsonl, read by name.

    A number that the record lacks is NaN, and every comparison with NaN is False.
    """

    rows: Rows

    @functools.cached_property
    def update_rows(self) -> list[tuple[int, Mapping[str, float | None]]]:
        """(number of the update, row) of the rows that describe one.

        The number is the row's `step`, where it has one.
        """
        found: list[tuple[int, Mapping[str, float | None]]] = []
        for row in self.rows:
            if any(name.startswith(UPDATE_PREFIXES) for name in row):
                known = is_finite(row, "step")
                found.append((int(row["step"]) if known else len(found) + 1, row))  # type: ignore[arg-type]
        return found

    @functools.cached_property
    def updates(self) -> int:
        """How many updates are described."""
        return len(self.update_rows)

    @functools.cached_property
    def first_update(self) -> int:
        """Number of the first update on record; 0 where there is none."""
        return self.update_rows[0][0] if self.update_rows else 0

    @functools.cached_property
    def last_update(self) -> int:
        """Number of the last update on record; 0 where there is none."""
        return self.update_rows[-1][0] if self.update_rows else 0

    @property
    def has_its_beginning(self) -> bool:
        """Whether the first update of the run is on record."""
        return self.first_update == 1

    @functools.cached_property
    def is_whole(self) -> bool:
        """Whether every update from the first to the last is on record, with its number and values of its own."""
        numbers = [number for number, row in self.update_rows if is_finite(row, "step")]
        return numbers == list(range(1, self.updates + 1)) and not self.is_filled

    @functools.cached_property
    def repeats(self) -> int:
        """How many updates repeat the values of the one before them."""
        both = [values for _, values in self.together(*NEVER_TWICE)]
        return sum(one == other for one, other in itertools.pairwise(both))

    @property
    def is_filled(self) -> bool:
        """Whether missing values were filled in with earlier ones."""
        return self.repeats > max(1, self.updates / 8)

    @functools.cached_property
    def is_one_run(self) -> bool:
        """Whether steps grow, and plies and scored moves never fall: those of two runs in one file do not."""
        steps, *amounts = (self.series(name) for name in ("step", "plies", "scored_moves"))
        return all(a < b for a, b in itertools.pairwise(steps)) and all(
            a <= b for values in amounts for a, b in itertools.pairwise(values)
        )

    def has(self, *metrics: str) -> bool:
        """Whether there is a finite value of every one of them, and of those of updates in one row."""
        together = [name for name in metrics if name.startswith((*UPDATE_PREFIXES, "step0/"))]
        if together and not any(
            all(is_finite(row, name) for name in together) for _, row in self.update_rows
        ):
            return False
        return all(
            any(is_finite(row, name) for row in self.rows) for name in set(metrics) - set(together)
        )

    def in_part(self, *metrics: str) -> tuple[str, ...]:
        """Those that every update has in a whole record, and that more than an eighth of the updates here lack."""
        most = self.updates * 7 / 8
        every = [name for name in metrics if name.startswith(UPDATE_PREFIXES)]
        return tuple(name for name in every if len(self.points(name)) < most)

    def points(self, metric: str) -> list[Point]:
        """(update, value) of a metric, of the rows that describe updates and have it."""
        return [(n, float(row[metric])) for n, row in self.update_rows if is_finite(row, metric)]  # type: ignore[arg-type]

    def series(self, metric: str) -> list[float]:
        """The finite values of a metric, in order, of every row."""
        return [float(row[metric]) for row in self.rows if is_finite(row, metric)]  # type: ignore[arg-type]

    def together(self, *metrics: str) -> list[tuple[int, list[float]]]:
        """(update, values) of the updates whose rows have all of the metrics."""
        return [
            (n, [float(row[m]) for m in metrics])  # type: ignore[arg-type]
            for n, row in self.update_rows
            if all(is_finite(row, m) for m in metrics)
        ]

    def first(self, metric: str, count: int = 1) -> float:
        """Mean of the first `count` values; NaN where there is none."""
        return _mean(self.series(metric)[:count])

    def last(self, metric: str, share: float = 0.0) -> float:
        """Mean of the last `share` of the values, of one at least; NaN where there is none."""
        values = self.series(metric)
        return _mean(values[-max(1, round(share * len(values))) :])

    def quarter(self, metric: str) -> float:
        """Mean of the absolute values of the last quarter; NaN where there is none."""
        values = self.series(metric)
        return _mean([abs(value) for value in values[-max(1, len(values) // 4) :]])

    def mean(self, metric: str) -> float:
        """Mean of all values; NaN where there is none."""
        return _mean(self.series(metric))

    def median(self, metric: str) -> float:
        """Median of all values; NaN where there is none."""
        values = self.series(metric)
        return float(np.median(values)) if values else math.nan

    def episode(self, points: Sequence[Point], holds: Callable[[float], bool]) -> Episode | None:
        """The longest stretch in which `holds` is true for at least 8 of 10 values; None if none is long enough.

        It begins and ends with a value that holds, and has at least 4 of them and an eighth of all.
        """
        held = np.array([holds(value) for _, value in points], bool)
        # A value that does not hold weighs as much as four that do. The longest stretch goes from the first of
        # some that hold to the last one up to which the sum is not negative.
        sums = np.concatenate([[0], np.cumsum(np.where(held, 1, -4))])
        starts = np.flatnonzero(held & ~np.concatenate([[False], held[:-1]]))
        ends = np.flatnonzero(held)
        if not len(ends):
            return None
        highest = np.maximum.accumulate(sums[ends + 1][::-1])  # the last end comes first
        lasts = ends[::-1][np.searchsorted(highest, sums[starts])]
        at = int(np.argmax(lasts - starts))
        inside = [points[i] for i in range(starts[at], lasts[at] + 1) if held[i]]
        return Episode(inside) if len(inside) >= max(4, len(points) / 8) else None

    def begins(self, since: int) -> str:
        """In words from when on something is seen."""
        first = since <= self.first_update
        return "from the first update on" if first else f"from update {since} on"

    @functools.cached_property
    def fresh_starts(self) -> list[int]:
        """Updates at which a process began: the first one on record, and those that were looked at before."""
        looked = [n for n, row in self.update_rows if is_finite(row, "step0/log_odds_residual")]
        return sorted({*looked, *([self.first_update] if self.has_its_beginning else [])})


def is_finite(row: Mapping[str, float | None], name: str) -> bool:
    """Whether the row has a finite number of that name."""
    value = row.get(name)
    return value is not None and math.isfinite(value)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


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
