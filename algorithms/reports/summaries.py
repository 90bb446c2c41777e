"""Single numbers read off a run's record: "last eval/entropy", "late rollout/repeated_fraction"."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Rows = Sequence[Mapping[str, float | None]]
"""The rows of a metrics.jsonl, in order; null where a value was not finite."""


def _quarter(values: list[float]) -> int:
    return max(1, len(values) // 4)


READINGS: dict[str, Callable[[list[float]], float]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "early": lambda values: float(np.mean(values[: _quarter(values)])),
    "late": lambda values: float(np.mean(values[-_quarter(values) :])),
    "mean": lambda values: float(np.mean(values)),
    "median": lambda values: float(np.median(values)),
    "min": min,
    "max": max,
    "gain": lambda values: values[-1] - values[0],
}
"""How the values of a metric become one: `early` and `late` are the means of the first and the last
quarter of the rows that have it, `gain` is the last minus the first."""


def series(rows: Rows, metric: str) -> list[float]:
    """The finite values of a metric, in order; rows without it are passed over."""
    found = (row.get(metric) for row in rows)
    return [float(v) for v in found if isinstance(v, (int, float)) and math.isfinite(v)]


def read(rows: Rows, reading: str) -> float:
    """The number that `reading` ("last eval/entropy") asks for; NaN where no row has the metric.

    Raises:
        ValueError: no such reading; the known ones are named.
    """
    how, _, metric = reading.partition(" ")
    if how not in READINGS or not metric:
        known = ", ".join(READINGS)
        raise ValueError(f'reading is {reading!r}: expected "HOW METRIC" with HOW one of {known}')
    values = series(rows, metric)
    return READINGS[how](values) if values else math.nan
