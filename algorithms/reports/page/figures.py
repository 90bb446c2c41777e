"""The page's figures; a missing metric is a sentence.

Metrics over time, entropy against regret, and what moved the policy: gradient shares, predicted entropy change,
clips by the move's probability. A figure whose values are all the same, or next to nothing, is a sentence too.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from csv import writer
from dataclasses import dataclass, field
from urllib.parse import quote

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from algorithms.reports.page.charts import (
    Axes,
    Line,
    category_chart,
    colour,
    element,
    line_chart,
    path_chart,
    scatter_chart,
    short,
)
from algorithms.reports.page.columns import AXES, Column, Spread, average, run_mean, spread
from algorithms.reports.run_files import RunRecord
from algorithms.reports.statistics import (
    Interval,
    difference_interval,
    interquartile_mean,
    share_interval,
)


@dataclass(frozen=True)
class Curve:
    """A metric drawn over the moves that were scored, the updates or the seconds.

    Attributes:
        metric: its name in metrics.jsonl.
        title: what people call it.
        unit: for the axis.
    """

    metric: str
    title: str
    unit: str


LEARNING = (
    Curve("eval/regret_cp", "Held-out regret", "centipawns lost per move"),
    Curve("eval/entropy", "Held-out entropy", "nats"),
    Curve("rollout/reward_mean", "Reward of the moves played", "reward"),
)
PLAYING = (
    Curve("eval/effective_moves", "Effective moves, held out", "moves"),
    Curve("policy/entropy", "Entropy of the rollout, while playing", "nats"),
)
STEP_SIZE = (
    Curve("reg/kl_old", "KL of the new policy from the one that played", "nats"),
    Curve("reg/kl_ref", "KL of the policy from the reference", "nats"),
    Curve("policy/clip_fraction_high", "Gradients cut by the upper clip", "share of samples"),
    Curve("policy/clip_fraction_low", "Gradients cut by the lower clip", "share of samples"),
)
COEFFICIENTS = (
    Curve("reg/ent_coef", "Entropy bonus", "advantage per nat"),
    Curve("reg/kl_old_coef", "Weight of the KL to the old policy", "advantage per nat"),
    Curve("reg/kl_ref_coef", "Weight of the KL to the reference", "advantage per nat"),
    Curve("rollout/temperature", "Sampling temperature", "T"),
)


@dataclass(frozen=True)
class Figure:
    """A chart with its title, legend and notes.

    Attributes:
        title: above the chart.
        metric: the names of the metrics shown.
        svg: the chart; empty where the notes say why there is none.
        csv: address of its numbers as CSV.
        over: of `AXES`, where the page may show the same over another; "" otherwise.
        names: (classes of the colour, name) for each line; empty where there is one only.
        notes: sentences below.
    """

    title: str
    metric: str
    svg: Markup
    csv: str
    names: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = field(default=())
    over: str = ""


def curve_figures(columns: Sequence[Column], curves: Sequence[Curve]) -> list[Figure | str]:
    """Each metric's figure over each of `AXES`; one sentence where there is nothing to draw."""
    figures: list[Figure | str] = []
    for curve in curves:
        found = [_curve_figure(columns, curve, over) for over in AXES]
        figures += found[:1] if isinstance(found[0], str) else found
    return figures


def _curve_figure(columns: Sequence[Column], curve: Curve, over: str) -> Figure | str:
    """A line and a band per column."""
    found = {column: spread(column.runs, curve.metric, over) for column in columns}
    lines = [_line(column, values) for column, values in found.items() if _drawable(values)]
    missing = {c.name: np.isfinite(v.mean).any() for c, v in found.items() if not _drawable(v)}
    untimed = [name for name, measured in missing.items() if measured]
    notes = [f"time/wall_s is not on record in: {'; '.join(untimed)}."] if untimed else []
    if not lines and notes:
        return Figure(curve.title, curve.metric, Markup(), "", notes=notes, over=over)
    if not lines:
        return f"{curve.title} ({curve.metric}): not on record in any run."
    values = np.concatenate([line.y for line in lines])
    if len(lines) == len(columns) and len(values) > len(lines) and np.ptp(values) == 0:
        return (
            f"{curve.title} ({curve.metric}): {short(float(values[0]))} throughout, in every run."
        )
    axes = Axes(curve.title, x_label(columns, over), curve.unit, x_reach=x_reach(columns, over))
    lacking = [name for name in missing if name not in untimed]
    notes += [f"Not on record in: {'; '.join(lacking)}."] if lacking else []
    if any(np.isnan(line.x + line.y).any() for line in lines):
        notes.append("A gap is a value that was not finite.")
    svg, csv = line_chart(axes, lines), csv_link(lines, (over, curve.metric))
    return Figure(curve.title, curve.metric, svg, csv, legend(columns), notes, over)


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
        notes.append("Strong lines are interquartile means over the seeds, fine lines single runs.")
    svg, csv = path_chart(axes, lines), csv_link(lines, _PLANE)
    return Figure("Entropy against regret", ", ".join(_PLANE), svg, csv, legend(columns), notes)


def at_end(
    column: Column, metric: str, *, share_of_start: bool = False
) -> tuple[float, Interval | None] | None:
    """(interquartile mean, its 95 % interval) of the runs' last finite values, or of their percentages of the first.

    The interval is None of one run; all is None where a run has no such value.
    """
    ends = _ends(column, metric, share_of_start)
    if ends is None:
        return None
    interval = difference_interval(ends) if len(ends) > 1 else None
    return float(interquartile_mean(ends)), interval


def _ends(column: Column, metric: str, share_of_start: bool) -> NDArray[np.float64] | None:
    found = [run.series(metric).finite for run in column.runs]
    if not all(len(values) and (values[0] > 0 or not share_of_start) for values in found):
        return None
    return np.array([100 * v[-1] / v[0] if share_of_start else v[-1] for v in found])


def end_figures(columns: Sequence[Column]) -> list[Figure | str]:
    """Regret and entropy at the end of each column's runs, with their intervals; nothing where each is one run."""
    figures: list[Figure | str] = []
    for title, metric, unit, share in (
        ("Held-out regret at the end", "eval/regret_cp", "percent of the start", True),
        ("Held-out entropy at the end", "eval/entropy", "nats", False),
    ):
        lines = []
        for column in columns:
            end = at_end(column, metric, share_of_start=share)
            if end is not None and end[1] is not None:
                middle, low, high = (np.array([at]) for at in (end[0], end[1].low, end[1].high))
                lines.append(Line(column.name, column.index, np.zeros(1), middle, low, high))
        if lines:
            svg = category_chart(Axes(title, "", unit), [""], lines)
            csv = csv_link(lines, ("end", f"{metric}, {unit}"))
            figures.append(Figure(title, metric, svg, csv, legend(columns)))
    return [*figures, *profile_figures(columns)]


def profile_figures(columns: Sequence[Column]) -> list[Figure]:
    """The performance profile of rliable (arXiv:2108.13264): the share of a column's runs that end so low or lower."""
    found = {column: _ends(column, "eval/regret_cp", True) for column in columns}
    ends = {c: np.sort(each) for c, each in found.items() if each is not None and len(each) > 1}
    if not ends:
        return []
    title, last = "Share of the runs that end so low", max(each[-1] for each in ends.values())
    lines = []
    for column, each in ends.items():
        shares = np.repeat(np.arange(len(each) + 1), 2)  # each run is a step, two points at its end
        intervals = [share_interval(float(hits), len(each)) for hits in shares]
        low, high = (np.array([getattr(i, edge) for i in intervals]) for edge in ("low", "high"))
        x = np.concatenate([[0.0], np.repeat(each, 2), [last]])
        lines.append(Line(column.name, column.index, x, shares / len(each), low, high))
    names = "regret at the end, at most, percent of the start", "share of the runs"
    notes = ["Further left and higher is better. Band: the 95 % interval of each share by itself."]
    svg = line_chart(Axes(title, *names), lines, over_time=False)
    csv = csv_link(lines, names)
    return [Figure(title, "eval/regret_cp", svg, csv, legend(columns), notes)]


CHAIN = ("ratio", "reward", "credit", "objective", "step")
"""Stages of an update in their order: `signal/STAGE` is what each keeps of the learning signal."""


def chain_figure(columns: Sequence[Column]) -> Figure | str:
    """What each stage keeps of the learning signal, the mean over the later half of the measured updates."""
    lines, places = [], np.arange(len(CHAIN), dtype=float)
    for column in columns:
        kept = np.array(
            [
                [run_mean(run, f"signal/{stage}", later=True) for stage in CHAIN]
                for run in column.runs
            ]
        )
        known = np.where(np.isfinite(kept).all(0), kept, np.nan)
        if np.isfinite(known).any():
            low, high = known.min(0), known.max(0)
            lines.append(Line(column.name, column.index, places, average(known), low, high))
    if not lines:
        return "The learning signal (signal/...): not on record in any run."
    axes = Axes("What each stage of an update keeps", "stage of the update", "share that it keeps")
    notes = [
        "1 is all of it, and below 0 the stage turns the signal round.",
        "A sound run keeps 1 at ratio, reward and step; credit and objective lose some in every run.",
    ]
    svg = category_chart(axes, CHAIN, lines)
    csv = csv_link(lines, ("stage", "share that it keeps"), CHAIN)
    return Figure(
        "What each stage of an update keeps", "signal/…", svg, csv, legend(columns), notes
    )


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
    rows = writer(written, lineterminator="\n")
    rows.writerow(["name", *names, "low", "high"])
    for line in lines:
        name = f"'{line.name}" if line.name.startswith(FORMULA) else line.name
        nothing = np.full(len(line.x), np.nan)
        low, high = (nothing if edge is None else edge for edge in (line.low, line.high))
        for x, *values in zip(line.x, line.y, low, high, strict=True):
            place = places[int(x)] if places else _in_csv(x)
            rows.writerow([name, place, *map(_in_csv, values)])
    return f"data:text/csv;charset=utf-8,{quote(written.getvalue(), safe='')}"


def _in_csv(value: float) -> str:
    return f"{value:.6g}" if np.isfinite(value) else ""


def legend(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """(classes of the colour, name) of each column; empty where there is one only."""
    return [(colour(c.index), c.name) for c in columns] if len(columns) > 1 else []


def x_label(columns: Sequence[Column], over: str) -> str:
    """The label of `Spread.x` in these columns."""
    if over != "moves":
        return {"updates": "updates", "seconds": "seconds of the run, pauses left out"}[over]
    moves = all(
        np.isfinite(run.series("step").scored_moves).all() for c in columns for run in c.runs
    )
    return "moves scored" if moves else "moves scored, or updates where moves are not on record"


def x_reach(columns: Sequence[Column], over: str) -> float:
    """The largest x of these columns' last rows."""
    ends = [spread(column.runs, "step", over).x[-1:] for column in columns]
    return float(np.nanmax(np.concatenate(ends), initial=0.0))


def swatch(classes: str) -> Markup:
    """SVG: the piece of line that stands before a name in a legend."""
    line = element("line", class_=f"line {classes}", x1=0, y1=6, x2=24, y2=6)
    return element("svg", line, class_="swatch", viewBox="0 0 24 12", aria_hidden="true")


_PLANE = ("eval/entropy", "eval/regret_cp")


def _drawable(values: Spread) -> bool:
    return bool(np.isfinite(values.x + values.mean).any())


def _line(column: Column, values: Spread) -> Line:
    return Line(column.name, column.index, values.x, values.mean, values.low, values.high)


def _pair(runs: Sequence[RunRecord], across: str, up: str) -> tuple[Spread, Spread]:
    """Two metrics at the updates that have both: points of the plane must be of one moment."""
    first, second = spread(runs, across), spread(runs, up)
    _, at, of = np.intersect1d(first.x, second.x, return_indices=True)
    return _picked(first, at), _picked(second, of)


def _picked(values: Spread, at: NDArray[np.int64]) -> Spread:
    return Spread(values.x[at], values.mean[at], values.low[at], values.high[at])


def _path(column: Column, pair: tuple[Spread, Spread], thin: bool = False) -> Line:
    across, up = pair
    tips = [
        f"{column.name}: {short(a)} nats, {short(b)} cp at {short(x)} moves"
        for a, b, x in zip(across.mean, up.mean, across.x, strict=True)
    ]
    return Line(column.name, column.index, across.mean, up.mean, thin=thin, tips=tips)


TERMS = {
    "entropy": "the entropy bonus", "kl_old": "the KL to the old policy", "kl_ref": "the KL to the reference",
    "kl_cov": "the KL of the covariant moves", "value": "the value loss",
}  # fmt: skip
"""Terms of the loss beside the policy's, in the order of their layers; an unknown one comes after them."""

NOTHING = 1e-3
"""Share of the measured change below which a prediction of it is next to nothing."""

BINS = {
    "p_below_01": "p < .01",
    "p_01_10": ".01 – .1",
    "p_10_50": ".1 – .5",
    "p_50_90": ".5 – .9",
    "p_above_90": "p > .9",
}


BY_PROBABILITY = (
    Curve("clip/up_", "Rises that meet the upper clip", "share of samples with A > 0"),
    Curve("clip/down_", "Falls that meet the lower clip", "share of samples with A < 0"),
    Curve("probe/mass_moved_", "Probability moved by an update", "change of probability"),
)
"""Metrics that exist once for each of `BINS`, whose name stands behind theirs."""
PREDICTIONS = (
    ("entropy/dh_realised", "From the logits' change", "nats", True),
    ("entropy/dh_gradient", "From the weights' change", "nats", True),
    ("entropy/dh_tabular", "From the advantages alone", "nats × advantage", False),
)


def share_figures(columns: Sequence[Column]) -> list[Figure | str]:
    """The share that each term beside the policy's has in the gradient: what is left is the policy's own."""
    names = {name.partition("/")[2] for column in columns for run in column.runs
             for name in run.metrics("grad_share/")}  # fmt: skip
    terms = {name for name in names if not name.endswith("_norm")} - {"policy"}
    if not terms:
        return ["Share of the gradient (grad_share/…): no term beside the policy's is on record."]
    known = [term for term in TERMS if term in terms] + sorted(terms - set(TERMS))
    curves = [Curve(f"grad_share/{term}", f"Share of {TERMS.get(term, term)} in the gradient", "share")
              for term in known]  # fmt: skip
    return curve_figures(columns, curves)


def prediction_figures(columns: Sequence[Column]) -> list[Figure | str]:
    """Measured change of the probe's entropy against each prediction of it, one dot per look and run."""
    figures: list[Figure | str] = []
    for metric, title, unit, identity in PREDICTIONS:
        clouds = [_cloud(column, metric) for column in columns]
        clouds = [cloud for cloud in clouds if len(cloud.x)]
        if not clouds:
            figures.append(f"{title}: {metric} and entropy/measured are not both on record.")
            continue
        measured, predicted = (
            max(float(np.abs(getattr(c, axis)).max()) for c in clouds) for axis in "xy"
        )
        if predicted < NOTHING * measured:
            figures.append(
                f"{title} ({metric}): at most {short(predicted)} {unit}, next to nothing beside the "
                f"{short(measured)} nats that were measured."
            )
            continue
        axes = Axes(f"{title} ({metric})", "measured change, nats", f"predicted, {unit}")
        notes = [
            "The line is: predicted = measured." if identity
            else "Adam takes other steps than the theory: look at sign and correlation, not at size."
        ]  # fmt: skip
        notes.append("Correlation: " + "; ".join(map(_correlation, clouds)) + ".")
        svg, names = scatter_chart(axes, clouds, identity), ("entropy/measured", metric)
        figures.append(
            Figure(title, ", ".join(names), svg, csv_link(clouds, names), legend(columns), notes)
        )
    return figures


def probability_figures(columns: Sequence[Column]) -> list[Figure | str]:
    """Clips and moved probability by the probability that the move had; means over a run's updates."""
    figures: list[Figure | str] = []
    for family in BY_PROBABILITY:
        lines = [line for column in columns if (line := _bin_line(column, family.metric))]
        if not lines:
            figures.append(f"{family.title} ({family.metric}…): not on record in any run.")
            continue
        if all(not np.nan_to_num(line.y).any() for line in lines):
            figures.append(f"{family.title} ({family.metric}…): 0 throughout, in every run.")
            continue
        axes = Axes(family.title, "probability of the move before the update", family.unit)
        notes = ["Mean over the updates."]
        if any(len(column.runs) > 1 for column in columns):
            notes = [
                "Mean over the updates and seeds; bars reach from the lowest to the highest seed."
            ]
        places = list(BINS.values())
        svg = category_chart(axes, places, lines)
        csv = csv_link(lines, ("probability", family.unit), places)
        figures.append(Figure(family.title, f"{family.metric}…", svg, csv, legend(columns), notes))
    return figures


def _cloud(column: Column, metric: str) -> Line:
    """Every look of every run: measured change across, prediction up."""
    across, up, tips = [], [], []
    for run in column.runs:
        measured, predicted = run.series("entropy/measured"), run.series(metric)
        common, at, of = np.intersect1d(measured.step, predicted.step, return_indices=True)
        for step, a, b in zip(common, measured.value[at], predicted.value[of], strict=True):
            if np.isfinite(a) and np.isfinite(b):
                across.append(a)
                up.append(b)
                tips.append(f"{run.name}, update {step}: measured {short(a)}, predicted {short(b)}")
    return Line(column.name, column.index, np.array(across), np.array(up), tips=tips)


def _correlation(cloud: Line) -> str:
    if len(cloud.x) < 3 or not np.ptp(cloud.x) or not np.ptp(cloud.y):
        return f"{cloud.name} – ({len(cloud.x)} looks are too few or all equal)"
    r = float(np.corrcoef(cloud.x, cloud.y)[0, 1])
    return f"{cloud.name} {r:.2f} ({len(cloud.x)} looks)".replace("-", "−")


def _bin_line(column: Column, prefix: str) -> Line | None:
    """Mean over updates for each bin: its mean, lowest and highest over the seeds; None where nothing is."""
    means = np.array([[run_mean(run, prefix + name) for name in BINS] for run in column.runs])
    seen = np.isfinite(means)
    if not seen.any():
        return None
    mean = np.nansum(means, 0) / np.where(seen.any(0), seen.sum(0), np.nan)
    low, high = np.fmin.reduce(means), np.fmax.reduce(means)  # nan where no run has one
    x = np.arange(len(BINS), dtype=float)
    tips = [
        f"{column.name}, {text}: {short(m)}" + (f" ({short(a)} to {short(b)})" if b > a else "")
        for text, m, a, b in zip(BINS.values(), mean, low, high, strict=True)
    ]
    return Line(column.name, column.index, x, mean, low, high, tips=tips)
