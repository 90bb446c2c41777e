"""The one writer of Markdown tables, and of numbers in them."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], rule: str = " --- ") -> str:
    """A Markdown table without an end of line; whole numbers have thousands separators.

    Args:
        header: names of the columns.
        rows: one cell a column each.
        rule: what stands under each name.
    """
    head, *lines = (f"| {' | '.join(map(_cell, line))} |" for line in (header, *rows))
    return "\n".join([head, "|" + f"{rule}|" * len(header), *lines])


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "\\|")  # a bar would end the cell


def tables(records: Iterable[Mapping[str, Any]]) -> str:
    """A table of the records, their keys for its header; neighbours with equal keys share one."""
    groups = itertools.groupby(records, key=tuple)
    return "\n\n".join(table(names, [list(row.values()) for row in own]) for names, own in groups)


def number(value: float | None) -> str:
    """Three significant digits, from a thousand on without a fraction."""
    if value is None:
        return "not measured"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def spread(values: Sequence[float | None]) -> str:
    """Median [lowest, highest] of what was measured."""
    known = [value for value in values if value is not None]
    if not known:
        return "not measured"
    middle, low, high = map(number, (statistics.median(known), min(known), max(known)))
    return middle if low == high else f"{middle} [{low}, {high}]"
