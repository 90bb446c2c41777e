"""Draws held-out entropy against held-out regret for docs/findings.md, and the price of further passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.causes_figures import GREY

COLOURS = ("#d9542b", "#2f86d6", "#3a9a5b", "#9a62c9")
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "font.size": 9, "text.color": GREY, "axes.edgecolor": GREY,
    "axes.labelcolor": GREY, "xtick.color": GREY, "ytick.color": GREY, "axes.titlecolor": GREY,
    "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip


def phase_plot(
    path: Path, families: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
) -> None:
    """None; one panel a family: a line a run from its start (right, above) to its end (left, below).

    Args:
        path: of the SVG.
        families: title -> column -> runs with "regret_cp" and "entropy", one value an evaluation.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        figure = Figure(figsize=(3.1 * len(families), 3.2), layout="constrained")
        panels = figure.subplots(1, len(families), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (title, columns) in zip(panels, families.items(), strict=True):
            for colour, (name, runs) in zip(COLOURS, columns.items(), strict=False):
                for number, run in enumerate(runs):
                    label = name if number == 0 else None
                    axes.plot(
                        run["regret_cp"], run["entropy"], colour, lw=0.8, alpha=0.6, label=label
                    )
                    axes.plot(run["regret_cp"][-1], run["entropy"][-1], "o", color=colour, ms=3)
            axes.set(title=title, xlabel="held-out regret, centipawns", ylim=(0, None))
            axes.grid(color=GREY, alpha=0.2, lw=0.6)
        panels[0].set_ylabel("held-out entropy, nats")
        panels[0].invert_xaxis()
        legend = panels[0].legend(frameon=False, loc="upper right")
        for line in legend.get_lines():
            line.set(linewidth=2.4, alpha=1)
        _save(figure, path)


def price_plot(path: Path, columns: Mapping[str, Mapping[str, Any]], level: int) -> None:
    """None; nats lost per 100 cp of regret gained over the number of passes, a line an algorithm.

    Args:
        path: of the SVG.
        columns: "ALGORITHM update_epochs=N" -> the record of questions_record.column.
        level: percent of the starting regret at which the price is read.
    """
    import matplotlib
    from matplotlib.figure import Figure

    points: dict[str, list[tuple[int, Mapping[str, float]]]] = {}
    for label, column in columns.items():
        name, _, passes = label.partition(" update_epochs=")
        if str(level) in column["nats_per_100_cp"]:
            points.setdefault(name, []).append((int(passes), column["nats_per_100_cp"][str(level)]))
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        figure = Figure(figsize=(4.6, 3.0), layout="constrained")
        axes = figure.subplots()
        for colour, (name, own) in zip(COLOURS, points.items(), strict=False):
            passes = [number for number, _ in own]
            middle = [spread["iqm"] for _, spread in own]
            ends = ([s["iqm"] - s["low"] for _, s in own], [s["high"] - s["iqm"] for _, s in own])
            axes.errorbar(
                passes, middle, ends, color=colour, marker="o", ms=4, capsize=3, label=name
            )
        axes.set_xscale("log", base=2)
        axes.set(xticks=[1, 2, 4, 8], xlabel="passes over each batch", ylim=(0, None),
                 ylabel=f"nats lost per 100 cp, at {level} %")  # fmt: skip
        axes.set_xticklabels(["1", "2", "4", "8"])
        axes.grid(color=GREY, alpha=0.2, lw=0.6)
        axes.legend(frameon=False)
        _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
