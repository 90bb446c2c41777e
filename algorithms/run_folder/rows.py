"""The rows of a record: their text with a checksum, and what a row may hold.

A row ends with the CRC-32 of the text before it: {"step": 3, ..., "crc32": "9a0b1c2d"}. It is written with the row in
one piece, so no kill parts them. It finds damage and does not say who wrote the row. Older versions wrote none.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from algorithms.run_folder.files import json_lines

CHECKSUM = "crc32"
_END = f', "{CHECKSUM}": "'
MAX_STEP = 2**53  # floats count no further
# Squares and sums of what is smaller stay finite; no quantity of a run comes near it.
LARGEST_VALUE = 1e100


def closed_row(row: Mapping[str, float | None]) -> bytes:
    """The line of a row of metrics.jsonl, which has at least one value."""
    body = json.dumps(row)[:-1]
    return f'{body}{_END}{_crc(body)}"}}\n'.encode()


class Rows(NamedTuple):
    """The rows of a record.

    Attributes:
        values: of each row, without its checksum.
        lines: their text.
        altered: numbers of the lines, from 1, that do not match their checksums.
        unchecked: how many have none.
    """

    values: list[Any]
    lines: list[str]
    altered: list[int]
    unchecked: int

    def alteration(self, name: object) -> str:
        """The sentence on the altered lines, of which there is at least one; `name` is the file's."""
        more = f" (and {len(self.altered) - 1:,} more lines)" if len(self.altered) > 1 else ""
        return (
            f"{name}, line {self.altered[0]}{more} does not match its checksum: it was damaged or edited. Put back "
            f'what it was, or take its "{CHECKSUM}" out to use it as it is.'
        )

    def doubts(self, name: object) -> list[str]:
        """Sentences on what is altered or cannot be checked; `name` is the file's."""
        found = [self.alteration(name) + " It is read as it is."] if self.altered else []
        if self.unchecked:
            which = "its rows" if self.unchecked == len(self.values) else f"{self.unchecked:,} rows"
            found.append(
                f"{name} has no checksums of {which}, as older versions wrote them: damage there would not be seen."
            )
        return found


def rows_of(text: str, name: str) -> Rows:
    """The rows of a record; a last line cut by a kill is left out.

    Args:
        text: of the file.
        name: of the file, for messages.

    Raises:
        ValueError: another line is not JSON; the message names its number.
    """
    found = json_lines(text, name)
    intact = [_intact(row, line) for row, line in found]
    altered = [number for number, each in enumerate(intact, start=1) if each is False]
    values, lines = [row for row, _ in found], [line for _, line in found]
    return Rows(values, lines, altered, intact.count(None))


def _intact(row: Any, line: str) -> bool | None:
    """Whether a row is as it was written; None where it has no checksum. Takes the checksum out."""
    # A row holds numbers, so a text under another name is a checksum whose name was damaged.
    if not isinstance(row, dict) or not any(isinstance(value, str) for value in row.values()):
        return None
    row.pop(CHECKSUM, None)
    body, end, crc = line.removesuffix("\n").rpartition(_END)
    return bool(end) and crc == f'{_crc(body)}"}}'


def _crc(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def checked_row(row: object, last_step: int, where: str) -> dict[str, float | None]:
    """The row, its values float, or None for null and beyond `LARGEST_VALUE`.

    Args:
        row: from `rows_of`.
        last_step: of the row before it; -1 for the first.
        where: file and line, for messages.

    Raises:
        ValueError: it is no flat object of numbers, or not later than the last.
    """
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {str(row)[:40]!r}, expected an object of metrics")
    for name, value in row.items():
        if value is not None and not isinstance(value, int | float):
            raise ValueError(
                f"{where}: {name[:80]!r} is {str(value)[:40]!r}, expected a number or null"
            )
    step = row.get("step")
    number = _finite(step)
    if number is None or not last_step < number < MAX_STEP or number != int(number):
        raise ValueError(
            f"{where}: step is {str(step)[:40]}, expected a whole number above {last_step}: "
            "were two runs written into one file?"
        )
    return {key: _finite(value) for key, value in row.items()}


def _finite(value: float | None) -> float | None:
    # Compared as it is: a whole number may be too long for a float.
    return float(value) if value is not None and abs(value) <= LARGEST_VALUE else None
