"""Figures of bars, as the text of an SVG: where the time of a command goes, and what more processes bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docs.pages.writing.figures import COLOURS, STYLE, drawing, svg_text

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
