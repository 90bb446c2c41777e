"""Runs sorted into columns: one label with one set of settings each; and a metric's spread over its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.reports.run_files import RunRecord, printable
from algorithms.reports.statistics import interquartile_mean
from algorithms.reports.tasks import differing_parts, flatten, group_by_task

# Settings that name a run or say where it computes, and so set no two columns apart.
BOOKKEEPING = frozenset(
    {
        "run_dir",
        "seed",
        "track",
        "preset",
        "cause",
        "num_threads",
        "checkpoint_interval_updates",
        "checkpoint_keep",
        "env.cache",
        "env.num_engines",
        "env.num_threads",
    }
)
AXES = {"moves": "scored_moves", "updates": "step", "seconds": "wall_s"}
"""What a curve may be drawn over -> where a `Series` has it."""
MISSING = "not set"
SHOWN = 3  # settings in a name; where more differ, it has as few as tell the columns apart
FEW_LETTERS = 28
MAX_POINTS = 120  # of a line
PLAIN = {"null": "none", "true": "on", "false": "off"}


@dataclass(frozen=True, eq=False)
class Column:
    """Runs that differ in nothing but the seed.

    Attributes:
        name: the label, and the settings that tell it from other columns of that label.
        index: its place on the page, which decides its colour.
        runs: at least one, by seed.
        settings: every setting, flat: `optimizer.learning_rate` -> its value as text.
    """

    name: str
    index: int
    runs: tuple[RunRecord, ...]
    settings: Mapping[str, str]

    @property
    def seeds(self) -> str:
        """The runs' seeds, as text."""
        return ", ".join("?" if run.seed is None else str(run.seed) for run in self.runs)

    def name_of(self, run: RunRecord) -> str:
        """What the page calls one of its runs: the column's name, with the seed where it has several runs."""
        if len(self.runs) == 1:
            return self.name
        seed = "?" if run.seed is None else str(run.seed)
        return f"{self.name}, seed {seed}" + (f" ({run.name})" if self.repeated_seeds else "")

    @property
    def repeated_seeds(self) -> bool:
        """Whether two of its runs have the same known seed: their spread is then too small."""
        known = [run.seed for run in self.runs if run.seed is not None]
        return len(set(known)) < len(known)


@dataclass(frozen=True, eq=False)
class RunGroup:
    """Columns that had the same task, and so may be compared.

    Attributes:
        letter: what the page calls it: A, B, ..., Z, AA, ...
        task: every part of the task in plain words -> what it is.
        columns: at least one.
    """

    letter: str
    task: Mapping[str, str]
    columns: tuple[Column, ...]

    @property
    def runs(self) -> int:
        """How many there are."""
        return sum(len(column.runs) for column in self.columns)


def group_columns(runs: Sequence[RunRecord]) -> list[RunGroup]:
    """The runs as columns, grouped by their task; both in the order in which their first run comes."""
    return [
        RunGroup(_letter(place), task, tuple(group_runs(own)))
        for place, (task, own) in enumerate(group_by_task(runs))
    ]


def group_runs(runs: Sequence[RunRecord]) -> list[Column]:
    """The columns, in the order in which their first run comes."""
    settings = {id(run): _telling(run) for run in runs}
    grouped: dict[tuple[str, tuple[tuple[str, str], ...]], list[RunRecord]] = {}
    for run in runs:
        own = tuple(sorted(settings[id(run)].items()))
        grouped.setdefault((_full_label(run), own), []).append(run)
    names = _names([(label, dict(own)) for label, own in grouped])
    columns = []
    for index, (name, members) in enumerate(zip(names, grouped.values(), strict=True)):
        members.sort(key=lambda run: (run.seed is None, run.seed or 0, run.name))
        columns.append(Column(name, index, tuple(members), settings[id(members[0])]))
    return columns


def _letter(place: int) -> str:
    before, last = divmod(place, 26)
    return (_letter(before - 1) if before else "") + chr(ord("A") + last)


def _telling(run: RunRecord) -> dict[str, str]:
    return {name: text for name, text in flatten(run.config).items() if name not in BOOKKEEPING}


def _full_label(run: RunRecord) -> str:
    cause = run.config.get("cause")
    return f"{run.label} ({printable(cause)})" if isinstance(cause, str) and cause else run.label


def _names(columns: Sequence[tuple[str, Mapping[str, str]]]) -> list[str]:
    """A name for each (label, settings): the label, and what sets it apart from others of that label."""
    names: list[str] = []
    for label, own in columns:
        alike = [settings for other, settings in columns if other == label]
        differing = differing_parts(alike)
        chosen = differing if len(differing) <= SHOWN else _telling_apart(differing, alike)
        parts = [label]
        for key, word in zip(chosen, _short_keys(chosen), strict=True):
            shown = _shortened([each.get(key, MISSING) for each in alike])
            parts.append(f"{word} {shown[own.get(key, MISSING)]}")
        if len(differing) > len(chosen):
            parts.append(f"+{len(differing) - len(chosen)} more")
        names.append(", ".join(parts))
    return [name if names.count(name) == 1 else f"{name} ({names[:i].count(name) + 1})"
            for i, name in enumerate(names)]  # fmt: skip


def _telling_apart(keys: Sequence[str], alike: Sequence[Mapping[str, str]]) -> list[str]:
    """As few of the keys as tell all settings apart, found one by one, in their own order."""
    chosen: list[str] = []

    def kinds(tried: Sequence[str]) -> int:
        return len({tuple(each.get(key, MISSING) for key in tried) for each in alike})

    while kinds(chosen) < kinds(keys):
        chosen.append(max(keys, key=lambda key: kinds([*chosen, key])))
    return [key for key in keys if key in chosen]


def _short_keys(keys: Sequence[str]) -> list[str]:
    """The last part of each dotted name, or the whole where two end alike."""
    ends = [key.rpartition(".")[2] for key in keys]
    return [end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)]


def _shortened(values: Sequence[str]) -> dict[str, str]:
    """{value: what a name shows of it}: few digits and few letters, where these still tell them apart."""
    for write in (_few_letters, _four_digits):
        short = {value: write(value) for value in values}
        if len(set(short.values())) == len(short):
            return short
    return {value: value for value in values}


def _few_letters(text: str) -> str:
    plain = PLAIN.get(text, _four_digits(text))
    return plain if len(plain) <= FEW_LETTERS else f"{plain[: FEW_LETTERS - 1]}…"


def _four_digits(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:.4g}" if len(f"{number:.4g}") < len(text) else text


@dataclass(frozen=True)
class Spread:
    """A metric of one column, at the updates that every one of its runs has.

    Attributes:
        x: float64 [K], mean over the runs of what `spread` was asked for; nan where one of them lacks it.
        mean: float64 [K], interquartile mean over the runs; nan where one of them holds null.
        low: float64 [K], the lowest run, or the lowest update of several drawn as one point.
        high: float64 [K], the highest.
    """

    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def spread(runs: Sequence[RunRecord], metric: str, over: str = "moves") -> Spread:
    """The metric over `runs`; of length 0 where a run lacks it or no update is common to all.

    Longer records are drawn as `MAX_POINTS` points, each the mean of neighbouring updates, with the
    lowest and highest of them as the band: a peak widens the band instead of vanishing.

    Args:
        runs: of one column.
        metric: its name in metrics.jsonl.
        over: of `AXES`. Moves are updates where they are not on record; seconds have no such stand-in.
    """
    series = [run.series(metric) for run in runs]
    common = series[0].step if series else np.empty(0, np.int64)
    for one in series[1:]:
        common = np.intersect1d(common, one.step)
    if not len(common):
        empty = np.empty(0)
        return Spread(empty, empty, empty, empty)
    rows = [np.searchsorted(one.step, common) for one in series]
    values = np.stack([one.value[at] for one, at in zip(series, rows, strict=True)])
    amounts = np.stack([getattr(one, AXES[over])[at] for one, at in zip(series, rows, strict=True)])
    unknown = over == "moves" and np.isnan(amounts).any()
    return _thinned(common.astype(float) if unknown else amounts.mean(0), values)


def run_mean(run: RunRecord, metric: str, *, later: bool = False) -> float:
    """Mean of the metric's finite values over the run's rows that have it, or the later half; nan where none has."""
    values = run.series(metric).finite
    values = values[len(values) // 2 :] if later else values
    return float(values.mean()) if len(values) else float("nan")


def average(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 [K]: interquartile mean of `values` [runs, K] over the runs; nan where one of them is not finite."""
    known = np.isfinite(values).all(0)
    found = np.full(values.shape[1], np.nan)
    if known.any():
        found[known] = interquartile_mean(values[:, known].T)
    return found


def _thinned(x: NDArray[np.float64], values: NDArray[np.float64]) -> Spread:
    """The spread of `values` [runs, K], neighbouring updates joined where K is above `MAX_POINTS`."""
    points = min(len(x), MAX_POINTS)
    starts = np.arange(points) * len(x) // points
    joined = np.diff(np.append(starts, len(x)))
    # A null makes its whole point a gap: to leave it out would draw a line where none was measured.
    return Spread(
        np.add.reduceat(x, starts) / joined,
        np.add.reduceat(average(values), starts) / joined,
        np.minimum.reduceat(values.min(0), starts),
        np.maximum.reduceat(values.max(0), starts),
    )
