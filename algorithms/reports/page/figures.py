"""The metrics that the page draws over time, and entropy against regret; a missing metric is a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from algorithms.reports.page.charts import Axes, Line, line_chart, path_chart
from algorithms.reports.page.columns import Column, Spread, spread
from algorithms.reports.page.svg import colour, element, short
from algorithms.reports.run_files import RunRecord


@dataclass(frozen=True)
class Curve:
    """A metric drawn over the moves that were scored.

    Attributes:
        metric: its name in metrics.jsonl.
        title: what people call it.
        unit: for the axis.
        flat_is_text: a value that never changes and is the same in all columns is a sentence.
    """

    metric: str
    title: str
    unit: str
    flat_is_text: bool = False


LEARNING = (
    Curve("eval/regret_cp", "Held-out regret", "centipawns lost per move"),
    Curve("eval/entropy", "Held-out entropy", "nats"),
    Curve("eval/effective_moves", "Effective moves, held out", "moves"),
    Curve("rollout/reward_mean", "Reward of the moves played", "reward"),
    Curve("policy/entropy", "Entropy while playing", "nats"),
)
STEP_SIZE = (
    Curve("reg/kl_old", "KL of the new policy from the one that played", "nats"),
    Curve("reg/kl_ref", "KL of the policy from the reference", "nats"),
    Curve("policy/clip_fraction_high", "Gradients cut by the upper clip", "share of samples"),
    Curve("policy/clip_fraction_low", "Gradients cut by the lower clip", "share of samples"),
)
COEFFICIENTS = (
    Curve("reg/ent_coef", "Entropy bonus", "advantage per nat", flat_is_text=True),
    Curve("reg/kl_old_coef", "Weight of the KL to the old policy", "advantage per nat", True),
    Curve("reg/kl_ref_coef", "Weight of the KL to the reference", "advantage per nat", True),
    Curve("rollout/temperature", "Sampling temperature", "T", flat_is_text=True),
)


@dataclass(frozen=True)
class Figure:
    """A chart with its title, legend and notes.

    Attributes:
        title: above the chart.
        metric: the names of the metrics shown.
        svg: the chart.
        names: (classes of the colour, name) for each line; empty where there is one only.
        notes: sentences below.
    """

    title: str
    metric: str
    svg: Markup
    names: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = field(default=())


def curve_figures(
    columns: Sequence[Column], curves: Sequence[Curve]
) -> tuple[list[Figure], list[str]]:
    """(figures, sentences): a figure for each metric on record, a sentence for each of the others."""
    figures, sentences = [], []
    for curve in curves:
        drawn = curve_figure(columns, curve)
        if isinstance(drawn, str):
            sentences.append(drawn)
        else:
            figures.append(drawn)
    return figures, sentences


def curve_figure(columns: Sequence[Column], curve: Curve) -> Figure | str:
    """The metric over the scored moves, a line and a band per column; a sentence where there is nothing to draw."""
    found = {column: spread(column.runs, curve.metric) for column in columns}
    lines = [_line(column, values) for column, values in found.items() if _drawable(values)]
    if not lines:
        return f"{curve.title} ({curve.metric}): not on record in any run."
    values = np.concatenate([line.y for line in lines])
    if (
        curve.flat_is_text
        and len(lines) == len(columns)
        and np.ptp(values[np.isfinite(values)]) == 0
    ):
        return (
            f"{curve.title} ({curve.metric}): {short(float(values[0]))} throughout, in every run."
        )
    axes = Axes(curve.title, x_label(columns), curve.unit, x_reach=x_reach(columns))
    lacking = [column.name for column, values in found.items() if not _drawable(values)]
    notes = [f"Not on record in: {'; '.join(lacking)}."] if lacking else []
    if any(np.isnan(line.y).any() for line in lines):
        notes.append("A gap is a value that was not finite.")
    return Figure(curve.title, curve.metric, line_chart(axes, lines), legend(columns), notes)


def phase_figure(columns: Sequence[Column]) -> Figure | str:
    """Held-out entropy against held-out regret, time along the line; thin lines are single runs."""
    lines = []
    for column in columns:
        group = spread(column.runs, "eval/entropy"), spread(column.runs, "eval/regret_cp")
        if len(column.runs) > 1:
            lines += [_path(column, _pair([run], *_PLANE), thin=True) for run in column.runs]
        if all(map(_drawable, group)):
            lines.append(_path(column, _pair(column.runs, *_PLANE)))
    lines = [line for line in lines if np.isfinite(line.x + line.y).any()]
    if not lines:
        return "Entropy against regret: eval/entropy and eval/regret_cp are not both on record."
    axes = Axes("Entropy against regret", "held-out entropy, nats", "held-out regret, centipawns")
    notes = ["Ring: start. Disc: end. Down is better play, left is a narrower policy."]
    if any(line.thin for line in lines):
        notes.append("Strong lines are means over the seeds, fine lines single runs.")
    return Figure("Entropy against regret", "eval/entropy, eval/regret_cp",
                  path_chart(axes, lines), legend(columns), notes)  # fmt: skip


def legend(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """(classes of the colour, name) of each column; empty where there is one only."""
    return [(colour(c.index), c.name) for c in columns] if len(columns) > 1 else []


def x_label(columns: Sequence[Column]) -> str:
    """The label of `Spread.x` in these columns."""
    moves = all(
        np.isfinite(run.series("step").scored_moves).all() for c in columns for run in c.runs
    )
    return "moves scored" if moves else "moves scored, or updates where moves are not on record"


def x_reach(columns: Sequence[Column]) -> float:
    """The largest x of these columns' last rows."""
    return max(float(spread(column.runs, "step").x[-1:].max(initial=0.0)) for column in columns)


def swatch(classes: str) -> Markup:
    """SVG: the piece of line that stands before a name in a legend."""
    line = element("line", class_=f"line {classes}", x1=0, y1=6, x2=24, y2=6)
    return element("svg", line, class_="swatch", viewBox="0 0 24 12", aria_hidden="true")


_PLANE = ("eval/entropy", "eval/regret_cp")


def _drawable(values: Spread) -> bool:
    return bool(np.isfinite(values.mean).any())


def _line(column: Column, values: Spread) -> Line:
    return Line(column.name, column.index, values.x, values.mean, values.low, values.high)


def _pair(runs: Sequence[RunRecord], across: str, up: str) -> tuple[Spread, Spread]:
    """Two metrics at the updates that have both: points of the plane must be of one moment."""
    first, second = spread(runs, across), spread(runs, up)
    _, at, of = np.intersect1d(first.x, second.x, return_indices=True)
    return _picked(first, at), _picked(second, of)


def _picked(values: Spread, at: NDArray[np.int64]) -> Spread:
    return Spread(values.x[at], values.mean[at], values.low[at], values.high[at], values.runs)


def _path(column: Column, pair: tuple[Spread, Spread], thin: bool = False) -> Line:
    across, up = pair
    tips = [
        f"{column.name}: {short(a)} nats, {short(b)} cp at {short(x)} moves"
        for a, b, x in zip(across.mean, up.mean, across.x, strict=True)
    ]
    return Line(column.name, column.index, across.mean, up.mean, thin=thin, tips=tips)
