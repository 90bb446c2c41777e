"""A metric over the seeds of a column: updates matched, mean, and the lowest and highest run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.reports.run_files import RunRecord

MAX_POINTS = 120


@dataclass(frozen=True)
class Spread:
    """A metric of one column, at the updates that every one of its runs has.

    Attributes:
        x: float64 [K], scored moves (updates where the record has none), mean over the runs.
        mean: float64 [K], mean over the runs; nan where one of them holds null.
        low: float64 [K], the lowest run, or the lowest update of several drawn as one point.
        high: float64 [K], the highest.
        runs: how many runs there are.
    """

    x: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    runs: int

    def __len__(self) -> int:
        return len(self.x)


def spread(runs: Sequence[RunRecord], metric: str, max_points: int = MAX_POINTS) -> Spread:
    """The metric over `runs`; of length 0 where a run lacks it or no update is common to all.

    Longer records are drawn as `max_points` points, each the mean of neighbouring updates, with the
    lowest and highest of them as the band: a peak widens the band instead of vanishing.
    """
    series = [run.series(metric) for run in runs]
    common = series[0].step if series else np.empty(0, np.int64)
    for one in series[1:]:
        common = np.intersect1d(common, one.step)
    if not len(common):
        empty = np.empty(0)
        return Spread(empty, empty, empty, empty, len(series))
    rows = [np.searchsorted(one.step, common) for one in series]
    values = np.stack([one.value[at] for one, at in zip(series, rows, strict=True)])
    moves = np.stack([one.scored_moves[at] for one, at in zip(series, rows, strict=True)])
    x = common.astype(float) if np.isnan(moves).any() else moves.mean(0)
    return _thinned(x, values, max_points)


def run_mean(run: RunRecord, metric: str) -> float:
    """Mean of the metric's finite values over the run's rows that have it; nan where none has."""
    values = run.series(metric).finite
    return float(values.mean()) if len(values) else float("nan")


def _thinned(x: NDArray[np.float64], values: NDArray[np.float64], max_points: int) -> Spread:
    """The spread of `values` [runs, K], neighbouring updates joined where K is above `max_points`."""
    points = min(len(x), max_points)
    starts = np.arange(points) * len(x) // points
    joined = np.diff(np.append(starts, len(x)))
    # A null makes its whole point a gap: to leave it out would draw a line where none was measured.
    return Spread(
        np.add.reduceat(x, starts) / joined,
        np.add.reduceat(values.mean(0), starts) / joined,
        np.minimum.reduceat(values.min(0), starts),
        np.maximum.reduceat(values.max(0), starts),
        len(values),
    )
