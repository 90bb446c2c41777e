"""Follows a run row by row, for the line of its state on the console."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping

from algorithms.collapse.doctor.diagnosis import SHORT, UNEXPLAINED, Diagnosis, diagnose
from algorithms.collapse.doctor.outcome import NOT_LEARNING
from algorithms.reports.summaries import Rows

_PLACES: dict[tuple[str, ...], dict[str, int]] = {}
"""Names of a row -> the place of each. A run has a few kinds of rows."""


class PackedRow(Mapping[str, float | None]):
    """A row of a record in an eighth of a dict's memory (a watched run keeps every row); null where not finite.

    Args:
        row: the values by name.
    """

    __slots__ = ("_places", "_values")

    def __init__(self, row: Mapping[str, float | None]) -> None:
        names = tuple(row)
        self._places = _PLACES.setdefault(names, {name: at for at, name in enumerate(names)})
        self._values = array("d", (math.nan if v is None else v for v in row.values()))

    def __getitem__(self, name: str) -> float | None:
        """The value of that name."""
        value = self._values[self._places[name]]
        return value if math.isfinite(value) else None

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._places)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._values)


class Watch:
    """Follows a run row by row: a line on its state, renewed at every evaluation.

    Args:
        rows: what is on record already, of a run that is continued.
    """

    def __init__(self, rows: Rows = ()) -> None:
        self._rows = [PackedRow(row) for row in rows]
        self._line = ""

    def __call__(self, row: Mapping[str, float]) -> str:
        """The line after this row of the record."""
        # A run that is continued plays again what its checkpoint had not seen: those rows are gone.
        while self._rows and (self._rows[-1].get("step") or 0.0) >= row["step"]:
            self._rows.pop()
        self._rows.append(PackedRow(row))
        if "eval/regret_cp" in row:
            self._line = _line(diagnose(self._rows))
        return self._line


def _line(diagnosis: Diagnosis) -> str:
    """What is known so far: a cause that does harm with its remedy, otherwise how the run does."""
    if diagnosis.verdict == SHORT:
        return ""
    if diagnosis.verdict == UNEXPLAINED or any(cause.is_harmful for cause in diagnosis.causes):
        return diagnosis.line()
    state = diagnosis.state
    if diagnosis.outcome.learning == NOT_LEARNING:
        state = state.replace(NOT_LEARNING, f"{NOT_LEARNING} yet", 1)
    return "; ".join([state, *diagnosis.lacking])
