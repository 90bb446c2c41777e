"""Lines of a file that were left out: how many for each reason, and the first few of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

FIRST_FEW = 5
"""Lines that are named one by one."""


class Line(NamedTuple):
    """One line that was left out.

    Attributes:
        number: in the file, from 1 on.
        kind: of the reason, under which it is counted.
        reason: what is wrong in this line.
    """

    number: int
    kind: str
    reason: str


class LeftOut:
    """Counts lines by the kind of the reason, and keeps the first few."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: list[Line] = []

    def add(self, lines: Iterable[Line]) -> None:
        """Adds some lines that stand behind all that were added before."""
        ordered = sorted(lines)
        self.counts.update(line.kind for line in ordered)
        self.first += ordered[: FIRST_FEW - len(self.first)]

    @property
    def total(self) -> int:
        """Number of lines."""
        return self.counts.total()

    def summary(self) -> str:
        """The counts in words, the largest first; "" where nothing was left out."""
        return ", ".join(f"{kind} {count:,}" for kind, count in self.counts.most_common())

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "total": self.total,
            "counts": dict(self.counts),
            "first": [line._asdict() for line in self.first],
        }
