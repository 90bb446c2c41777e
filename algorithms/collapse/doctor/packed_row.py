"""A row of a record in an eighth of the memory: a run that is watched keeps all of its rows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping

_PLACES: dict[tuple[str, ...], dict[str, int]] = {}
"""Names of a row -> the place of each. A run has a few kinds of rows."""


class PackedRow(Mapping[str, float | None]):
    """A row's values by name; null where one is not finite.

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
