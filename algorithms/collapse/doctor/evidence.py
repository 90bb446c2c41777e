"""What a rule of the doctor finds, and the record that it reads."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

from algorithms.reports.summaries import Rows, read, series

LARGEST_ENTROPY = math.log(218)
"""No chess position has more than 218 legal moves: 5.385 nats."""


@dataclasses.dataclass(frozen=True)
class Evidence:
    """A cause that the record speaks for.

    Attributes:
        name: the doctor's class (`DOCTOR_CLASSES` in causes.py).
        confidence: in [0, 1].
        measured: what was measured, with the numbers.
        without: what the same quantity would be without the cause.
        remedy: what to change.
        confirm: the command of a run that would show otherwise.
    """

    name: str
    confidence: float
    measured: str
    without: str
    remedy: str
    confirm: str

    def to_dict(self) -> dict[str, str | float]:
        """The values that `chess-lab diagnose --json` prints."""
        return {
            "name": self.name,
            "confidence": round(self.confidence, 3),
            "evidence": f"{self.measured}; without the cause: {self.without}",
            "remedy": self.remedy,
            "confirm": self.confirm,
        }


@dataclasses.dataclass(frozen=True)
class Record:
    """The rows of a run's metrics.jsonl, read by name.

    A reading of a metric that the record lacks is NaN, and every comparison with NaN is False: a
    rule says nothing of what was not measured.
    """

    rows: Rows

    def __call__(self, reading: str) -> float:
        """The number that `reading` ("last eval/entropy") asks for; NaN where it is not there."""
        return read(self.rows, reading)

    def series(self, metric: str) -> list[float]:
        """The finite values of a metric, in order."""
        return series(self.rows, metric)

    def both(self, one: str, other: str) -> list[tuple[float, float]]:
        """The pairs of two metrics from the rows that have both."""
        return [
            (row[one], row[other])  # type: ignore[misc]
            for row in self.rows
            if _finite(row, one) and _finite(row, other)
        ]

    def start(self, metric: str, updates: int = 3) -> float:
        """Mean of the first `updates` values; NaN where there is none."""
        values = self.series(metric)[:updates]
        return sum(values) / len(values) if values else math.nan

    @functools.cached_property
    def updates(self) -> int:
        """Rows that describe an update."""
        return len(self.series("train/steps"))

    @property
    def regret_kept(self) -> float:
        """Held-out regret at the last evaluation over that at the first; NaN with fewer than two."""
        values = self.series("eval/regret_cp")
        return values[-1] / values[0] if len(values) >= 2 and values[0] > 0 else math.nan

    @property
    def entropy_kept(self) -> float:
        """Held-out entropy at the last evaluation over that at the first; NaN with fewer than two."""
        values = self.series("eval/entropy")
        return values[-1] / values[0] if len(values) >= 2 and values[0] > 0 else math.nan


def _finite(row: Mapping[str, float | None], name: str) -> bool:
    value = row.get(name)
    return isinstance(value, (int, float)) and math.isfinite(value)


def rerun(*changes: str) -> str:
    """The command of a counterfactual run: the settings of RUN, changed in these.

    A change whose number the record does not give ("nan") is left out: no run can be given it.
    """
    known = [change for change in changes if not change.endswith(" nan")]
    return " ".join(["chess-lab train --like RUN", *known])
