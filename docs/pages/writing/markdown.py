"""Markdown: templates filled in, and the one writer of tables."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from algorithms.networks.settings import ONCE_THE_ONLY_NETWORK

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def with_network(command: str) -> str:
    """A recorded `chess-lab compare`, with the network that it compared on where it names none.

    It is one of before there were several, whose command line has to ask for it today.
    """
    return command if " --network " in command else f"{command} --network {ONCE_THE_ONLY_NETWORK}"


_TEMPLATES.filters["with_network"] = with_network


def filled(template: str, **values: Any) -> str:
    """The text of `template`.md.j2 with the values; a name that is missing is an error."""
    return _TEMPLATES.get_template(f"{template}.md.j2").render(values)


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
