"""Follows a run row by row, for the line of its state on the console."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping

from algorithms.doctor.diagnosis import SHORT, UNEXPLAINED, Diagnosis, diagnose
from algorithms.doctor.metric_rows import NOT_LEARNING, Rows

_ABSENT = -math.inf
_FIRST, _NEWEST = 256, 1_792


class PackedRow(Mapping[str, float | None]):
    """A row of a record in an eighth of a dict's memory (a watched run keeps many); null where not finite.

    Args:
        row: the values by name.
        places: name -> its place in every row; new names are added. A run's rows share it.
    """

    __slots__ = ("_places", "_values")

    def __init__(self, row: Mapping[str, float | None], places: dict[str, int]) -> None:
        values, self._places = array("d"), places
        for name, value in row.items():
            place = places.setdefault(name, len(places))
            values.extend([_ABSENT] * (place + 1 - len(values)))
            values[place] = math.nan if value is None or math.isinf(value) else value
        self._values = values

    def __getitem__(self, name: str) -> float | None:
        """The value of that name."""
        place = self._places[name]
        if place >= len(self._values) or self._values[place] == _ABSENT:
            raise KeyError(name)
        value = self._values[place]
        return None if math.isnan(value) else value

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return (name for name in self._places if name in self)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a value."""
        place = self._places.get(name, len(self._values))  # type: ignore[call-overload]
        return bool(place < len(self._values) and self._values[place] != _ABSENT)

    def __len__(self) -> int:
        """How many there are."""
        return sum(value != _ABSENT for value in self._values)


class Watch:
    """Follows a run row by row: a line on its state, renewed at every evaluation.

    Of a long run it keeps the first rows and the newest, so that its memory does not grow;
    `chess-lab diagnose` reads all of them.

    Args:
        rows: what is on record already, of a run that is continued.
    """

    def __init__(self, rows: Rows = ()) -> None:
        self._places: dict[str, int] = {}
        self._rows = [PackedRow(row, self._places) for row in rows]
        del self._rows[_FIRST : max(_FIRST, len(self._rows) - _NEWEST)]
        self._line = ""

    def __call__(self, row: Mapping[str, float]) -> str:
        """The line after this row of the record."""
        self.add(row)
        if "eval/regret_cp" in row:
            self._line = _line(diagnose(self._rows))
        return self._line

    def add(self, row: Mapping[str, float | None]) -> None:
        """Takes up a row without a line after it."""
        # A run that is continued plays again what its checkpoint had not seen: those rows are gone.
        while self._rows and (self._rows[-1].get("step") or 0.0) >= (row["step"] or 0.0):
            self._rows.pop()
        self._rows.append(PackedRow(row, self._places))
        if len(self._rows) > _FIRST + _NEWEST:
            del self._rows[_FIRST]


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
