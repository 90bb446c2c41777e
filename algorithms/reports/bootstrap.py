"""Percentile bootstrap intervals over positions: many independent values of one run.

`statistics` has the intervals over seeds, of which there are few.
"""

from __future__ import annotations

import numpy as np

from algorithms.reports.scores import Floats


def bootstrap_interval(
    values: Floats, *, seed: int = 0, resamples: int = 2000, level: float = 0.95
) -> tuple[float, float]:
    """(low, high) percentile bootstrap interval of the mean of independent values `[M]`.

    Raises:
        ValueError: no values.
    """
    if len(values) == 0:
        raise ValueError("no values: a bootstrap interval needs at least one")
    rng = np.random.default_rng(seed)
    means = np.array([rng.choice(values, len(values)).mean() for _ in range(resamples)])
    tail = (1 - level) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def percent_interval(start: Floats, end: Floats, *, resamples: int = 2000) -> tuple[float, float]:
    """95 % bootstrap interval of 100 x mean(end) / mean(start), positions resampled in pairs."""
    rng = np.random.default_rng(0)
    index = rng.integers(len(start), size=(resamples, len(start)))
    shares = 100 * end[index].mean(1) / start[index].mean(1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(low), float(high)
