"""The numbers of a figure as CSV, in an address that the page itself holds: a browser saves it without a network."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from urllib.parse import quote

import numpy as np

from algorithms.reports.page.charts import Line

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes a text for a formula by; names come from strangers' settings."""


def csv_link(lines: Sequence[Line], names: tuple[str, str], places: Sequence[str] = ()) -> str:
    """A data: URL of "name, x, y", and the ends of the band where a line has one; a gap is an empty cell.

    Args:
        lines: of the figure.
        names: of x and y.
        places: names of the categories, where x is the place of one.
    """
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(["name", *names, "low", "high"])
    for line in lines:
        name = f"'{line.name}" if line.name.startswith(FORMULA) else line.name
        nothing = np.full(len(line.x), np.nan)
        low, high = (nothing if edge is None else edge for edge in (line.low, line.high))
        for x, *values in zip(line.x, line.y, low, high, strict=True):
            place = places[int(x)] if places else _number(x)
            rows.writerow([name, place, *map(_number, values)])
    return f"data:text/csv;charset=utf-8,{quote(written.getvalue(), safe='')}"


def _number(value: float) -> str:
    return f"{value:.6g}" if np.isfinite(value) else ""
