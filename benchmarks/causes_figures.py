"""Draws held-out entropy and regret of a cause against its cured twin, for docs/causes.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Curve = Mapping[str, Sequence[float | None]]
"""{"moves", "regret_cp", "entropy"}: one value an evaluation each."""

PANELS = {"entropy": "held-out entropy, nats", "regret_cp": "held-out regret, centipawns"}
SIDES = {"on": ("cause", "#d9542b"), "cured": ("cured twin", "#2f86d6")}
GREY = "#757b83"  # of text and axes: a contrast above 4 to white and to a dark page alike


def median_curve(curves: Sequence[Curve], name: str) -> tuple[list[float], list[float]]:
    """(scored moves, medians over the curves) at the evaluations of the shortest curve.

    Args:
        curves: at least one; between evaluations they are straight lines.
        name: of the values.
    """
    grid = min((as_floats(curve["moves"]) for curve in curves), key=lambda moves: moves[-1])
    values = [np.interp(grid, as_floats(c["moves"]), as_floats(c[name])) for c in curves]
    return grid.tolist(), np.median(values, axis=0).tolist()


def as_floats(values: Sequence[float | None]) -> np.ndarray:
    """The values as float64 [K]; nan for None."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def draw(path: Path, name: str, curves: Mapping[str, Sequence[Curve | None]]) -> None:
    """None; writes an SVG with a transparent background, whose text is text.

    Args:
        path: of the file; its folder is made where missing.
        name: of the cause; seeds the identifiers in the file, so that it comes out the same.
        curves: "on" and "cured" -> one curve a seed, None for a broken run.
    """
    import matplotlib
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9, "text.color": GREY,
        "axes.edgecolor": GREY, "axes.labelcolor": GREY, "xtick.color": GREY, "ytick.color": GREY,
        "axes.spines.top": False, "axes.spines.right": False, "path.simplify": True,
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(7.6, 2.7), layout="constrained")
        for axes, (values, label) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
            for side, (who, colour) in SIDES.items():
                _lines(axes, [c for c in curves[side] if c is not None], values, who, colour)
            axes.set(xlabel="scored moves (thousands)", ylabel=label, ylim=(0, None))
            axes.grid(color=GREY, alpha=0.2, lw=0.6)
        figure.axes[0].legend(frameon=False, loc="best")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})


def _lines(axes: Any, curves: Sequence[Curve], values: str, who: str, colour: str) -> None:
    if not curves:
        return
    for curve in curves:
        axes.plot(
            as_floats(curve["moves"]) / 1000, as_floats(curve[values]), colour, lw=0.7, alpha=0.5
        )
    moves, medians = median_curve(curves, values)
    axes.plot([each / 1000 for each in moves], medians, colour, lw=2.4, label=who)
