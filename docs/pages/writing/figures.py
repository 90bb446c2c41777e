"""The figures of the pages, as the text of an SVG; the same data give the same file."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

Curve = Mapping[str, Sequence[float | None]]
"""{"moves", "regret_cp", "entropy"}: one value an evaluation each."""

GREY = "#757b83"  # of text and axes: a contrast above 4 to white and to a dark page alike
COLOURS = ("#d9542b", "#2f86d6", "#3a9a5b", "#9a62c9")
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "font.size": 9, "text.color": GREY, "axes.edgecolor": GREY,
    "axes.labelcolor": GREY, "xtick.color": GREY, "ytick.color": GREY, "axes.titlecolor": GREY,
    "axes.spines.top": False, "axes.spines.right": False,
    "savefig.transparent": True,
}  # fmt: skip
PANELS = {"entropy": "held-out entropy, nats", "regret_cp": "held-out regret, centipawns"}
SIDES = {"on": ("cause", COLOURS[0]), "cured": ("cured twin", COLOURS[1])}
TARGET_PERCENT, TARGET_ENTROPY = 20.0, 0.4
"""What `benchmarks/learning/learning.py` asks of the default run: percent of its first regret, and nats."""


@contextmanager
def drawing(name: str, size: tuple[float, float], style: Mapping[Any, Any]) -> Iterator[Any]:
    """A matplotlib figure to draw on; `svg_text` must be asked for its text before the block ends.

    Args:
        name: seeds the identifiers in the file, so that it comes out the same.
        size: width and height, inches.
        style: matplotlib's rc parameters.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**style, "svg.hashsalt": name}):
        yield Figure(figsize=size, layout="constrained")


def svg_text(figure: Any) -> str:
    """The figure as an SVG file without a date."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def pair(name: str, curves: Mapping[str, Sequence[Curve | None]]) -> str:
    """Held-out entropy and regret of a cause against its cured twin.

    Args:
        name: of the cause.
        curves: "on" and "cured" -> one curve a seed, None for a broken run.
    """
    with drawing(name, (7.6, 2.7), STYLE) as figure:
        for axes, (values, label) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
            for side, (who, colour) in SIDES.items():
                known = [curve for curve in curves[side] if curve is not None]
                for curve in known:
                    moves = as_floats(curve["moves"]) / 1000
                    axes.plot(moves, as_floats(curve[values]), colour, lw=0.7, alpha=0.5)
                if known:
                    grid, medians = median_curve(known, values)
                    axes.plot([at / 1000 for at in grid], medians, colour, lw=2.4, label=who)
            axes.set(xlabel="scored moves (thousands)", ylabel=label, ylim=(0, None))
            _grid(axes)
        figure.axes[0].legend(frameon=False, loc="best")
        return svg_text(figure)


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


def phases(families: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> str:
    """One panel a family: a line a run from its start (right, above) to its end (left, below).

    Args:
        families: title -> column -> runs with "regret_cp" and "entropy", one value an evaluation.
    """
    with drawing("four_algorithms", (3.1 * len(families), 3.2), STYLE) as figure:
        panels = figure.subplots(1, len(families), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (title, columns) in zip(panels, families.items(), strict=True):
            for colour, (name, runs) in zip(COLOURS, columns.items(), strict=False):
                for number, run in enumerate(runs):
                    label = name if number == 0 else None
                    points = run["regret_cp"], run["entropy"]
                    axes.plot(*points, colour, lw=0.8, alpha=0.6, label=label)
                    axes.plot(*(each[-1] for each in points), "o", color=colour, ms=3)
            axes.set(title=title, xlabel="held-out regret, centipawns", ylim=(0, None))
            _grid(axes)
        panels[0].set_ylabel("held-out entropy, nats")
        panels[0].invert_xaxis()
        legend = panels[0].legend(frameon=False, loc="upper right")
        for line in legend.get_lines():
            line.set(linewidth=2.4, alpha=1)
        return svg_text(figure)


def prices(columns: Mapping[str, Mapping[str, Any]], level: int) -> str:
    """Nats lost per 100 cp of regret gained over the number of passes, a line an algorithm.

    Args:
        columns: "ALGORITHM update_epochs=N" -> the record of `benchmarks.records.questions.column`.
        level: percent of the starting regret at which the price is read.
    """
    points: dict[str, list[tuple[int, Mapping[str, float]]]] = {}
    for label, column in columns.items():
        name, _, epochs = label.partition(" update_epochs=")
        if str(level) in column["nats_per_100_cp"]:
            points.setdefault(name, []).append((int(epochs), column["nats_per_100_cp"][str(level)]))
    with drawing("amplification", (4.6, 3.0), STYLE) as figure:
        axes = figure.subplots()
        for colour, (name, own) in zip(COLOURS, points.items(), strict=False):
            passes = [number for number, _ in own]
            middle = [spread["iqm"] for _, spread in own]
            ends = ([s["iqm"] - s["low"] for _, s in own], [s["high"] - s["iqm"] for _, s in own])
            style = {"color": colour, "marker": "o", "ms": 4, "capsize": 3, "label": name}
            axes.errorbar(passes, middle, ends, **style)
        axes.set_xscale("log", base=2)
        axes.set(xticks=[1, 2, 4, 8], xlabel="passes over each batch", ylim=(0, None),
                 ylabel=f"nats lost per 100 cp, at {level} %")  # fmt: skip
        axes.set_xticklabels(["1", "2", "4", "8"])
        _grid(axes)
        axes.legend(frameon=False)
        return svg_text(figure)


def by_cpu_time(panels: Mapping[str, Mapping[str, Mapping[float, Sequence[float]]]]) -> str:
    """One panel a kind of run: held-out regret over CPU-minutes, a line a network, bars from lowest to highest.

    Args:
        panels: title -> network -> CPU-minutes -> regrets of the seeds, centipawns.
    """
    with drawing("by_cpu_time", (2.3 * len(panels), 2.9), STYLE) as figure:
        columns = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (title, networks) in zip(columns, panels.items(), strict=True):
            for colour, (name, budgets) in zip(COLOURS, networks.items(), strict=False):
                minutes, seeds = list(budgets), [np.sort(values) for values in budgets.values()]
                middle = np.array([np.median(values) for values in seeds])
                ends = (middle - [s[0] for s in seeds], [s[-1] for s in seeds] - middle)
                style = {"color": colour, "marker": "o", "ms": 3, "capsize": 2, "label": name}
                axes.errorbar(minutes, middle, ends, **style)
            axes.set(title=title, xlabel="CPU-minutes", xscale="log")
            _grid(axes)
        cells = [cell for networks in panels.values() for cell in networks.values()]
        at = sorted({each for budgets in cells for each in budgets})
        top = max(max(seeds) for budgets in cells for seeds in budgets.values())
        columns[0].set_xticks(at, [f"{each:g}" for each in at])
        columns[0].minorticks_off()
        columns[0].set(ylabel=PANELS["regret_cp"], ylim=(0, 1.05 * top))
        columns[-1].legend(frameon=False)
        return svg_text(figure)


def strong_curves(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Greedy regret on the left, and scores of the matches within the runs on the right.

    Args:
        runs: name -> the evaluations of the run, as `benchmarks/learning/strong.py` keeps them.
    """
    with drawing("learning_curves", (9, 3.2), STYLE) as figure:
        regret, *scores = figure.subplots(1, 3)
        matches = list(zip(scores, ("random", "material"), (99, 97), strict=True))
        for colour, (name, curve) in zip(COLOURS, runs.items(), strict=False):
            moves = [point["scored_moves"] / 1e6 for point in curve]
            greedy = [point["eval/regret_cp_greedy"] for point in curve]
            regret.plot(moves, greedy, colour, lw=1.2, label=name)
            for axes, opponent, _ in matches:
                key = f"match/{opponent}/score"
                played = [point["scored_moves"] / 1e6 for point in curve if key in point]
                won = [100 * point[key] for point in curve if key in point]
                axes.plot(played, won, "o-", color=colour, lw=1.2, ms=2.5)
        regret.axhline(50, color=GREY, lw=0.8, ls="--")
        regret.set(ylabel="greedy regret on random_2_40, cp", ylim=(35, 100))
        regret.legend(frameon=False)
        for axes, opponent, goal in matches:
            axes.axhline(goal, color=GREY, lw=0.8, ls="--")
            axes.set(ylabel=f"score against {opponent}, % of 40 games", ylim=(95, 100.3))
        for axes in figure.axes:
            axes.set_xlabel("scored moves, millions")
            _grid(axes)
        return svg_text(figure)


def learning_curve(record: Mapping[str, Any]) -> str:
    """Held-out regret and entropy of every seed of the default run."""
    with drawing("learning_curve", (9, 3.4), {}) as figure:
        left, right = figure.subplots(1, 2)
        for number, row in enumerate(record["rows"]):
            curve, colour = record["settings"]["curves"][str(row["seed"])], f"C{number}"
            moves = [point["scored_moves"] / 1000 for point in curve]
            regret, greedy, entropy = (
                [point[f"eval/{name}"] for point in curve]
                for name in ("regret_cp", "regret_cp_greedy", "entropy")
            )
            left.plot(moves, regret, colour, label=f"seed {row['seed']}")
            left.plot(moves, greedy, colour, lw=0.8, ls=":")
            right.plot(moves, entropy, colour)
        start = record["rows"][0]["regret_cp_start"]
        wanted = start * TARGET_PERCENT / 100
        left.axhline(wanted, color="grey", lw=0.8, ls="--")
        says = f"dashed: {TARGET_PERCENT:g} % of the start"
        left.text(300, wanted + 6, says, color="grey", fontsize=8, ha="right")
        right.axhline(TARGET_ENTROPY, color="grey", lw=0.8, ls="--")
        for axes, label in ((left, PANELS["regret_cp"]), (right, PANELS["entropy"])):
            axes.set(xlabel="scored moves (thousands)", ylabel=label, ylim=(0, None))
        left.set_title("sampled (solid) and greedy (dotted)", fontsize=9)
        left.legend(frameon=False, fontsize=8)
        return svg_text(figure)


def precision_curves(runs: Sequence[Mapping[str, Any]]) -> str:
    """Held-out regret and entropy of every run over its moves, a colour for each precision."""
    names = list(dict.fromkeys(run["variant"] for run in runs))
    first = min(run["seed"] for run in runs)
    with drawing("precision", (7.6, 2.9), STYLE) as figure:
        for axes, (values, label) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
            for run in runs:
                colour = COLOURS[names.index(run["variant"])]
                moves = [at / 1000 for at in run["curve"]["moves"]]
                name = run["variant"] if run["seed"] == first else None
                axes.plot(moves, run["curve"][values], color=colour, lw=1.1, label=name)
            axes.set(xlabel="scored moves (thousands)", ylabel=label, ylim=(0, None))
        axes.legend(frameon=False, fontsize=8)
        return svg_text(figure)


def entropy_against_regret(record: Mapping[str, Any]) -> str:
    """Every run as a line of entropy over regret, and of regret over scored moves."""
    runs = record["settings"]["runs"]
    names = list(dict.fromkeys(run["algorithm"] for run in runs))
    first = min(run["seed"] for run in runs)
    with drawing("entropy_against_regret", (9.6, 4.0), {}) as figure:
        left, right = figure.subplots(1, 2)
        for run in runs:
            colour = f"C{names.index(run['algorithm'])}"
            label = run["algorithm"] if run["seed"] == first else None
            moves, regret, _, entropy = zip(*run["curve"], strict=True)
            left.plot(regret, entropy, colour, lw=1.1, alpha=0.85, label=label)
            left.plot(regret[-1], entropy[-1], "o", color=colour, ms=4)
            right.plot([at / 1000 for at in moves], regret, colour, lw=1.1, alpha=0.85)
        left.invert_xaxis()
        left.set(xlabel="held-out regret, centipawns (better to the right)")
        left.set(ylabel=PANELS["entropy"], ylim=(0, None))
        left.legend(frameon=False, fontsize=8)
        right.set(xlabel="scored moves (thousands)", ylabel=PANELS["regret_cp"], ylim=(0, None))
        return svg_text(figure)


def _grid(axes: Any) -> None:
    axes.grid(color=GREY, alpha=0.2, lw=0.6)
