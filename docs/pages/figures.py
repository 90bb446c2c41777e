"""The figures of the pages, as the text of an SVG; the same data give the same file."""

from __future__ import annotations

import io
import textwrap
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


def entropy_against_regret(name: str, record: Mapping[str, Any]) -> str:
    """Held-out entropy against regret of each algorithm, a panel for each way to choose its bonus.

    Args:
        name: of the figure.
        record: of `benchmarks.learning.four_algorithms`.
    """
    panels = {"none": "no bonus", "equal": "one coefficient for all"}
    panels["share"] = "one share of the gradient for all"
    with drawing(name, (9.6, 3.4), STYLE) as figure:
        all_axes = figure.subplots(1, len(panels), sharey=True)
        for axes, (treatment, title) in zip(all_axes, panels.items(), strict=True):
            for preset, colour in zip(record["plan"]["presets"], COLOURS, strict=True):
                column = f"{preset}+{treatment}"
                runs = [each for each in record["cells"] if each["column"] == column]
                regret, entropy = (
                    np.array([run[value] for run in runs]) for value in ("regret_cp", "entropy")
                )
                axes.plot(regret.T, entropy.T, color=colour, lw=0.6, alpha=0.25)
                axes.plot(regret[:, -1], entropy[:, -1], "o", color=colour, ms=2.5, alpha=0.5)
                axes.plot(regret.mean(0), entropy.mean(0), color=colour, lw=2.2, label=preset)
            axes.set(title=title, xlabel=PANELS["regret_cp"], xlim=(0, None), ylim=(0, None))
            _grid(axes)
        all_axes[0].set_ylabel(PANELS["entropy"])
        all_axes[0].legend(frameon=False, loc="upper left")
        return svg_text(figure)


def methods(record: Mapping[str, Any]) -> str:
    """How far each method is from its base, in entropy at equal regret and in regret at the end, with intervals."""
    found = [each for each in record["settings"]["gaps"] if "regret" in each]
    with drawing("methods", (8.6, 1.0 + 0.19 * len(found)), STYLE) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        bases = dict(zip(dict.fromkeys(each["base"] for each in found), COLOURS, strict=False))
        for base, colour in bases.items():
            right.plot([], [], "o-", color=colour, ms=4, lw=1.4, label=f"beside {base}")
        right.legend(frameon=False, loc="lower right")
        for place, each in enumerate(found):
            colour = bases[each["base"]]
            for axes, name in ((left, "entropy"), (right, "regret")):
                if name in each:
                    middle, low, high = each[name]
                    axes.plot([low, high], [place, place], color=colour, lw=1.4)
                    axes.plot(middle, place, "o", color=colour, ms=4)
        for axes in (left, right):
            axes.axvline(0, color=GREY, lw=0.8)
            axes.grid(axis="x", color=GREY, alpha=0.2, lw=0.6)
        left.set(yticks=range(len(found)), yticklabels=[each["method"] for each in found])
        left.tick_params(axis="y", length=0)
        left.set_xlabel("more entropy at equal regret, nats")
        right.set_xlabel("more regret at the end, points")
        left.set_ylim(len(found) - 0.3, -0.7)
        return svg_text(figure)


def _grid(axes: Any) -> None:
    axes.grid(color=GREY, alpha=0.2, lw=0.6)


_GROUPED = 0.38
"""Height of a bar, of two that stand together."""


def stages(seconds: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Two bars for each case, one above the other, each divided into the stages of a command.

    Args:
        seconds: case -> "before" and "now" -> stage -> seconds.
    """
    names = list(next(iter(next(iter(seconds.values())).values())))
    with drawing("train_stages", (7.6, 0.6 + 0.75 * len(seconds)), STYLE) as figure:
        axes = figure.subplots()
        places, labels = [], []
        for number, (case, sides) in enumerate(seconds.items()):
            for offset, (side, of_stage) in zip((-0.5, 0.5), sides.items(), strict=True):
                place, left = number + offset * _GROUPED, 0.0
                places.append(place)
                labels.append(f"{case}: {side}")
                for colour, stage in zip(COLOURS, names, strict=True):
                    is_first = len(places) == 1
                    axes.barh(
                        place, of_stage[stage], 0.9 * _GROUPED, left, color=colour,
                        label=stage if is_first else None,
                    )  # fmt: skip
                    left += of_stage[stage]
                axes.text(left, place, f"  {left:.1f} s", va="center")
        axes.set_yticks(places, labels)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel="seconds of the command", xlim=(0, 1.1 * axes.get_xlim()[1]))
        figure.legend(frameon=False, loc="outside upper center", ncols=len(names))
        return svg_text(figure)


def moves_by_processes(rows: Sequence[Mapping[str, Any]]) -> str:
    """Scored moves a second by the number of processes, a group of bars for each of the settings.

    Args:
        rows: of `benchmarks.speed.processes`.
    """
    settings = list(dict.fromkeys(row["settings"] for row in rows))
    counts = sorted({row["processes"] for row in rows})
    with drawing("processes", (7.6, 2.6), STYLE) as figure:
        axes = figure.subplots()
        width = 0.8 / len(counts)
        for colour, count in zip(COLOURS, counts, strict=False):
            mine = [row for row in rows if row["processes"] == count]
            offset = (counts.index(count) - (len(counts) - 1) / 2) * width
            places = [settings.index(row["settings"]) + offset for row in mine]
            heights = [row["moves_per_s"] for row in mine]
            label = f"{count} process" if count == 1 else f"{count} processes"
            bars = axes.bar(places, heights, 0.92 * width, color=colour, label=label)
            axes.bar_label(bars, [f"{height:,}" for height in heights], padding=2)
        axes.set_xticks(range(len(settings)), settings)
        axes.tick_params(axis="x", length=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set(ylabel="scored moves a second", ylim=(0, 1.1 * axes.get_ylim()[1]))
        figure.legend(frameon=False, loc="outside upper center", ncols=len(counts))
        return svg_text(figure)


def links(name: str, runs: Mapping[str, Mapping[str, float]], lost: Mapping[str, str]) -> str:
    """What each stage of an update keeps of the learning signal, a panel for each run.

    Args:
        name: of the figure, which seeds the identifiers in the file.
        runs: what it is called -> stage -> share that is kept, drawn from -1 on.
        lost: what it is called -> the stage at which the signal is lost, "" where it is not.
    """
    with drawing(name, (9.6, 2.9), STYLE) as figure:
        for axes, (called, kept) in zip(
            figure.subplots(1, len(runs), sharey=True), runs.items(), strict=True
        ):
            places = np.arange(len(kept))
            colours = [COLOURS[0] if stage == lost[called] else COLOURS[1] for stage in kept]
            axes.bar(
                places, [max(-1.0, min(1.15, value)) for value in kept.values()], color=colours
            )
            axes.axhline(1.0, color=GREY, lw=0.7, ls=":")
            axes.axhline(0.0, color=GREY, lw=0.7)
            axes.set_xticks(places, list(kept), rotation=90)
            axes.set_title("\n".join(textwrap.wrap(called, 15)), fontsize=9)
            axes.set_ylim(-1.05, 1.2)
        figure.axes[0].set_ylabel("share of the signal kept")
        return svg_text(figure)


def flagged(
    name: str, panels: Mapping[str, Sequence[tuple[str, str, Mapping[str, tuple[int, int]]]]]
) -> str:
    """Share of harmful runs that doctors flag against the share of sound ones; a panel for each part of the corpus.

    Args:
        name: of the figure.
        panels: part -> (doctor, what it flags by, group -> (flagged, of)) for each, the project's own first.
    """
    with drawing(name, (7.6, 3.2), STYLE) as figure:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        shown: dict[str, Any] = {}
        for place, (part, doctors) in zip(axes, panels.items(), strict=True):
            tools = list(dict.fromkeys(doctor.split()[0] for doctor, _, _ in doctors))
            for doctor, by, groups in doctors:
                if "as logged" in by:
                    continue
                x, y = (100 * groups[group][0] / groups[group][1] for group in ("sound", "harmful"))
                tool, colours = doctor.split()[0], (*COLOURS, GREY)
                mark = "*" if tool == tools[0] else "^" if by == "critical" else "o"
                shown[f"{tool}, {by}"] = place.plot(
                    x, y, mark, ms=13 if mark == "*" else 6, color=colours[tools.index(tool)], clip_on=False
                )[0]  # fmt: skip
            place.set(title=part.replace("_", ", "), xlim=(-2, 102), ylim=(-2, 102))
            place.set_xlabel("sound runs flagged, %")
            place.grid(color=GREY, alpha=0.2)
        axes[0].set_ylabel("harmful runs flagged, %")
        figure.legend(shown.values(), shown, loc="outside lower center", ncols=4, frameon=False)
        return svg_text(figure)


def heat_map(name: str, cells: Mapping[str, Mapping[str, tuple[str, str, str]]]) -> str:
    """A table of verdicts that can be read without colour: dark cells are good, hatched ones bad.

    Args:
        name: of the figure.
        cells: row -> column -> (verdict, number, interval below it); a missing column is a cell that was not run.
    """
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    fills = {"cures": "#1d5c3a", "helps": "#a8d5b5", "harms": "#f2b8a0"}
    texts = {"cures": "white", "helps": "black", "harms": "black"}
    with drawing(name, (0.92 * len(columns) + 1.5, 0.42 * len(cells) + 1.6), STYLE) as figure:
        axes = figure.subplots()
        for y, row in enumerate(cells.values()):
            for x, column in enumerate(columns):
                verdict, number, interval = row.get(column, ("not run", "–", ""))
                axes.add_patch(
                    _rectangle(
                        (x - 0.5, y - 0.5), 1, 1, facecolor=fills.get(verdict, "none"), edgecolor=GREY, lw=0.4,
                        hatch="//" if verdict == "harms" else None,
                    )
                )  # fmt: skip
                colour = texts.get(verdict, GREY)
                sign = "?" if verdict == "cannot tell" else ""
                axes.text(x, y - 0.14, number + sign, ha="center", va="center", color=colour, fontsize=9,
                          fontweight="bold" if verdict == "cures" else None)  # fmt: skip
                axes.text(
                    x, y + 0.25, interval, ha="center", va="center", color=colour, fontsize=6.5
                )
        axes.set_xticks(range(len(columns)), columns, rotation=35, ha="left")
        axes.set_yticks(range(len(cells)), list(cells))
        axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
        axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(cells) - 0.5, -0.5))
        for side in axes.spines.values():
            side.set_visible(False)
        return svg_text(figure)


def _rectangle(*place: Any, **look: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(*place, **look)
