"""A table of several players on the same positions: a row for each kind of them, a column for each player."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from algorithms.reports.statistics import wilson_interval

_WIDTH = 79
_CELL = 19
_BLOCK = 3  # players side by side; more stand below


def share_cell(hits: float, count: int) -> str:
    """A share in percent with its interval, as `42.1 (37.4-47.0)`."""
    interval = wilson_interval(hits, count)
    return f"{100 * hits / count:.1f} ({100 * interval.low:.1f}-{100 * interval.high:.1f})"


def share_values(hits: float, count: int) -> dict[str, Any]:
    """A share with the ends of its interval, as plain values."""
    interval = wilson_interval(hits, count)
    return {"share": hits / count, "share_low": interval.low, "share_high": interval.high}


def side_by_side(
    first: str,
    second: str,
    names: Sequence[str],
    rows: Sequence[tuple[str, int | None, Sequence[str]]],
    notes: Sequence[str],
) -> list[str]:
    """Lines of at most 79 columns.

    Args:
        first: head of the rows' labels.
        second: head of their counts.
        names: of the players; a long one takes several lines.
        rows: (label, count or None, a cell for each player).
        notes: sentences below the table.
    """
    lines: list[str] = []
    for start in range(0, len(names), _BLOCK):
        block = slice(start, start + _BLOCK)
        heads = [_head(name) for name in names[block]]
        height = max(map(len, heads))
        heads = [[""] * (height - len(head)) + head for head in heads]
        lines.append("")
        for at in range(height):
            labels = (first, second) if at == height - 1 else ("", "")
            lines.append(_line(*labels, [head[at] for head in heads]))
        lines += [
            _line(label, "" if count is None else f"{count:,}", cells[block])
            for label, count, cells in rows
        ]
    if notes:
        lines.append("")
    for note in notes:
        lines += textwrap.wrap(note, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return lines[1:]


def _head(name: str) -> list[str]:
    """A name in lines that fit above a column: broken at spaces and behind slashes, or where it must be."""
    lines, width = [""], _CELL - 1
    for piece in re.findall(r"\s+|[^\s/]+/?|/", name):
        for part in (piece[at : at + width] for at in range(0, len(piece), width)):
            if len(lines[-1]) + len(part) > width:
                lines.append("")
            lines[-1] = (lines[-1] + part).lstrip()
    return [line.rstrip() for line in lines if line]


def _line(label: str, count: str, cells: Sequence[str]) -> str:
    return (f"{label:<10}{count:>9}  " + "".join(f"{cell:<{_CELL}}" for cell in cells)).rstrip()
