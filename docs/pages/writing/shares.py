"""A table of colours, as the text of an SVG: what share of runs is right, row by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from docs.pages.writing.figures import STYLE, drawing, svg_text

Cells = Mapping[str, Mapping[str, tuple[float, str]]]
"""Row -> column -> (share in [0, 1], "harmful" or another word); what is not there was not run."""

_DOT, _WIDTH_OF_LETTER, _WIDTH_OF_COLUMN = "#222222", 0.075, 1.15


def shares(name: str, title: str, rows: Cells, columns: Mapping[str, str]) -> str:
    """The table. A dot stands where the fault did harm, and a share below 1 is written; what was not run is empty.

    Args:
        name: of the figure, which seeds the identifiers in the file.
        title: what is shown.
        rows: the shares.
        columns: name -> label, in their order.
    """
    letters = max((len(row) for row in rows), default=0)
    lines = 1 + max(label.count("\n") for label in columns.values())
    size = (
        1.2 + _WIDTH_OF_LETTER * letters + _WIDTH_OF_COLUMN * len(columns),
        0.6 + 0.24 * len(rows) + 0.15 * lines,
    )
    with drawing(name, size, STYLE) as figure:
        axes = figure.subplots()
        values = [[cells.get(c, (np.nan, ""))[0] for c in columns] for cells in rows.values()]
        image = axes.imshow(
            np.ma.masked_invalid(np.array(values, dtype=np.float64)),
            vmin=0, vmax=1, cmap="RdYlGn", aspect="auto", alpha=0.8,
        )  # fmt: skip
        for y, cells in enumerate(rows.values()):
            harmful = [x for x, c in enumerate(columns) if cells.get(c, (0, ""))[1] == "harmful"]
            axes.plot(harmful, [y] * len(harmful), "o", color=_DOT, ms=4)
            for x, column in enumerate(columns):
                share, _ = cells.get(column, (1.0, ""))
                if share < 1:
                    axes.text(x + 0.12, y, f"{share:.0%}", va="center", color=_DOT, fontsize=8)
        axes.set_xticks(np.arange(len(columns) - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(len(rows) - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="white", lw=1.5)
        axes.tick_params(which="both", length=0)
        axes.set_xticks(range(len(columns)), columns.values())
        axes.set_yticks(range(len(rows)), list(rows))
        axes.set_title(title, loc="left")
        figure.colorbar(image, ax=axes, fraction=0.04)
        return svg_text(figure)


def shared(hits: Sequence[bool]) -> float:
    """Share of True; NaN of nothing."""
    return sum(hits) / len(hits) if hits else float("nan")
