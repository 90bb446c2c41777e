"""What moved the policy: gradient shares, predicted entropy change, clips by the move's probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.reports.page.charts import Axes, Line, category_chart, scatter_chart, stack_chart
from algorithms.reports.page.columns import Column, run_mean, spread
from algorithms.reports.page.figures import Figure, legend, x_label, x_reach
from algorithms.reports.page.svg import colour, short

# The loss terms in the order of their layers; a term unknown here comes after them.
TERMS = ("policy", "entropy", "kl_old", "kl_ref", "kl_cov", "value")
SHARES = (("grad_share", "Share of the gradient"), ("loss_share", "Share of the loss' value"))
MAX_BARS = 24

BINS = {
    "p_below_01": "p < .01",
    "p_01_10": ".01 – .1",
    "p_10_50": ".1 – .5",
    "p_50_90": ".5 – .9",
    "p_above_90": "p > .9",
}


@dataclass(frozen=True)
class ByProbability:
    """Metrics that exist once for each bin of the move's probability.

    Attributes:
        prefix: their names without the bin.
        title: what people call them.
        unit: for the axis.
    """

    prefix: str
    title: str
    unit: str


BY_PROBABILITY = (
    ByProbability("clip/up_", "Rises that meet the upper clip", "share of samples with A > 0"),
    ByProbability("clip/down_", "Falls that meet the lower clip", "share of samples with A < 0"),
    ByProbability("probe/mass_moved_", "Probability moved by an update", "change of probability"),
)
PREDICTIONS = (
    ("entropy/dh_realised", "From the logits' change", "nats", True),
    ("entropy/dh_gradient", "From the weights' change", "nats", True),
    ("entropy/dh_tabular", "From the advantages alone", "nats × advantage", False),
)


def share_figures(column: Column) -> list[Figure | str]:
    """Gradient shares over time and, beside them, the shares of the loss' value; sentences where absent."""
    figures: list[Figure | str] = []
    for family, title in SHARES:
        terms = _terms(column, family)
        found = {term: spread(column.runs, f"{family}/{term}", MAX_BARS) for term in terms}
        found = {term: values for term, values in found.items() if np.isfinite(values.mean).any()}
        if not found:
            figures.append(f"{title} ({family}/…): not on record in {column.name}.")
            continue
        x = np.unique(np.concatenate([values.x for values in found.values()]))
        layers = [
            Line(term, _term_index(term), x, _at(x, values.x, values.mean))
            for term, values in found.items()
        ]
        axes = Axes(
            f"{title}, {column.name}", x_label([column]), "share", x_reach=x_reach([column])
        )
        names = [(colour(_term_index(term)), term) for term in found]
        figures.append(
            Figure(f"{title}: {column.name}", f"{family}/…", stack_chart(axes, layers), names)
        )
    return figures


def prediction_figures(columns: Sequence[Column]) -> list[Figure | str]:
    """Measured change of the probe's entropy against each prediction of it, one dot per look and run."""
    figures: list[Figure | str] = []
    for metric, title, unit, identity in PREDICTIONS:
        clouds = [_cloud(column, metric) for column in columns]
        clouds = [cloud for cloud in clouds if len(cloud.x)]
        if not clouds:
            figures.append(f"{title}: {metric} and entropy/measured are not both on record.")
            continue
        axes = Axes(f"{title} ({metric})", "measured change, nats", f"predicted, {unit}")
        notes = [
            "The line is: predicted = measured." if identity
            else "Adam takes other steps than the theory: look at sign and correlation, not at size."
        ]  # fmt: skip
        notes.append("Correlation: " + "; ".join(map(_correlation, clouds)) + ".")
        svg = scatter_chart(axes, clouds, identity)
        figures.append(Figure(title, f"entropy/measured, {metric}", svg, legend(columns), notes))
    return figures


def probability_figures(columns: Sequence[Column]) -> list[Figure | str]:
    """Clips and moved probability by the probability that the move had; means over a run's updates."""
    figures: list[Figure | str] = []
    for family in BY_PROBABILITY:
        lines = [line for column in columns if (line := _bin_line(column, family.prefix))]
        if not lines:
            figures.append(f"{family.title} ({family.prefix}…): not on record in any run.")
            continue
        axes = Axes(family.title, "probability of the move before the update", family.unit)
        notes = ["Mean over the updates."]
        if any(len(column.runs) > 1 for column in columns):
            notes = [
                "Mean over the updates and seeds; bars reach from the lowest to the highest seed."
            ]
        svg = category_chart(axes, list(BINS.values()), lines)
        figures.append(Figure(family.title, f"{family.prefix}…", svg, legend(columns), notes))
    return figures


def _terms(column: Column, family: str) -> list[str]:
    """The loss terms on record, known ones first; norms of gradients are no shares."""
    names = {name.partition("/")[2] for run in column.runs for name in run.metrics(f"{family}/")}
    terms = {name for name in names if not name.endswith("_norm")}
    return [term for term in TERMS if term in terms] + sorted(terms - set(TERMS))


def _term_index(term: str) -> int:
    return TERMS.index(term) if term in TERMS else len(TERMS)


def _at(
    wanted: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """float64 [len(wanted)]: y where x is wanted, nan elsewhere."""
    values = np.full(len(wanted), np.nan)
    values[np.searchsorted(wanted, x)] = y
    return values


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
    counts = seen.sum(0)
    total = np.where(seen, means, 0.0).sum(0)
    mean = np.divide(total, counts, out=np.full(len(BINS), np.nan), where=counts > 0)
    low = np.where(counts > 0, np.where(seen, means, np.inf).min(0), np.nan)
    high = np.where(counts > 0, np.where(seen, means, -np.inf).max(0), np.nan)
    x = np.arange(len(BINS), dtype=float)
    tips = [
        f"{column.name}, {text}: {short(m)}" + (f" ({short(a)} to {short(b)})" if b > a else "")
        for text, m, a, b in zip(BINS.values(), mean, low, high, strict=True)
    ]
    return Line(column.name, column.index, x, mean, low, high, tips=tips)
