"""What may be claimed as a matrix: one cell for each pair of columns, and why a claim is not made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from algorithms.reports.pairwise import Comparison
from algorithms.reports.run_files import printable
from algorithms.reports.statistics import Interval, minimum_seeds

ALPHA = 0.05  # as in the sentences below the matrix
_AT_LEVEL = re.compile(r"(?P<name>.*) \(at (?P<level>\d+) % of the starting regret\)", re.DOTALL)

Mixed = Callable[[str, str], str]
"""(ours, theirs) -> the parts of the task in which two columns differ; "" where they share it."""


@dataclass(frozen=True)
class Cell:
    """One pair: the row's column minus the other.

    Attributes:
        difference: interquartile mean of the seeds' differences.
        interval: for it, 95 %.
        level: where the two were read, where that is a choice of each pair.
        verdict: "higher" or "lower" where that may be claimed, otherwise why nothing may.
        claimed: whether a difference may be claimed.
    """

    difference: str
    interval: str
    level: str
    verdict: str
    claimed: bool


@dataclass(frozen=True)
class Matrix:
    """All pairs of one quantity, each once: above the diagonal.

    Attributes:
        lower_is_better: direction of the quantity.
        header: names of the columns: all but the first.
        rows: (name, cells): all but the last; None where the pair stands elsewhere.
    """

    lower_is_better: bool
    header: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]

    def pairs_of(self, name: str) -> list[Cell]:
        """The cells in which the column is one of the two."""
        return [
            cell
            for row, cells in self.rows
            for column, cell in zip(self.header, cells, strict=True)
            if cell is not None and name in (row, column)
        ]

    @property
    def with_levels(self) -> bool:
        """Whether each pair was read at a level of its own."""
        return any(cell is not None and cell.level for _, cells in self.rows for cell in cells)

    @property
    def counted(self) -> str:
        """How many of the differences may be claimed, as a sentence."""
        cells = [cell for _, cells in self.rows for cell in cells if cell is not None]
        held = sum(cell.claimed for cell in cells)
        if len(cells) == 1:
            return f"The difference may {'be' if held else 'not be'} claimed"
        return f"{held} of {len(cells)} differences may be claimed"


def make_matrix(
    quantity: Mapping[str, Any], names: Mapping[str, str], mixed: Mixed = lambda ours, theirs: ""
) -> Matrix | None:
    """The matrix of a quantity of comparison.json; None where no pair was compared.

    Args:
        quantity: as `algorithms.comparison.analysis` writes it.
        names: the comparison's name of a column -> the page's; one that is not in it keeps its own.
        mixed: tells columns (by the comparison's names) that had different tasks.
    """
    cells: dict[tuple[str, str], Cell] = {}
    order: dict[str, None] = {}
    for values in quantity.get("comparisons", []):
        each, level = _comparison(values)
        order |= dict.fromkeys((each.ours, each.theirs))
        cells[each.ours, each.theirs] = _cell(each, level, mixed(each.ours, each.theirs))
    for pair, level in quantity.get("level_percent", {}).items():
        ours, _, theirs = pair.partition(" | ")
        if level is None:
            order |= dict.fromkeys((ours, theirs))
            cells[ours, theirs] = Cell("–", "", "", "no common level of regret", False)
    if not quantity.get("comparisons"):
        return None
    # The comparison went through its pairs in the order of its columns; here a column may come first as
    # the second of a pair, so the order is made from the pairs.
    columns = sorted(order, key=lambda name: sum(name == theirs for _, theirs in cells))
    rows = [
        (_named(ours, names), [cells.get((ours, theirs)) for theirs in columns[1:]])
        for ours in columns[:-1]
    ]
    header = [_named(name, names) for name in columns[1:]]
    return Matrix(not quantity["higher_is_better"], header, rows)


def _comparison(values: Mapping[str, Any]) -> tuple[Comparison, str]:
    """(the pair under its columns' own names, the level at which it was read)."""
    intervals = {key: Interval(**values[key]) for key in ("interval", "improvement_interval")}
    each = Comparison(**{**values, **intervals})
    found = [_AT_LEVEL.fullmatch(name) for name in (each.ours, each.theirs)]
    if found[0] is None or found[1] is None:
        return each, ""
    ours, theirs = (match["name"] for match in found if match)
    return replace(each, ours=ours, theirs=theirs), f"at {found[0]['level']} %"


def _cell(each: Comparison, level: str, mixed: str) -> Cell:
    interval = f"{_signed(each.interval.low)} to {_signed(each.interval.high)}"
    claimed = not mixed and each.holds(ALPHA)
    return Cell(_signed(each.difference), interval, level, _verdict(each, mixed), claimed)


def _verdict(each: Comparison, mixed: str) -> str:
    """Which way the difference goes where it may be claimed, otherwise the first reason why it may not."""
    needed = minimum_seeds(each.family, alpha=ALPHA)
    if mixed:
        return f"not comparable: other {mixed}"
    if each.identical:
        return "identical"
    if each.holds(ALPHA):
        return "higher" if each.interval.low > 0 else "lower"
    if each.seeds < needed:
        return f"too few seeds: {each.seeds}\N{NO-BREAK SPACE}of\N{NO-BREAK SPACE}{needed}"
    if not each.interval.excludes(0.0):
        return "interval includes 0"
    corrected = " after Holm’s correction" if each.p_value <= ALPHA else ""
    return f"p {each.p_adjusted if corrected else each.p_value:.2g}{corrected}"


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")


def _named(name: str, names: Mapping[str, str]) -> str:
    return names.get(name, printable(name))
