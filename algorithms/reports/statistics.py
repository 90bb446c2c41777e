"""Statistics over seeds: interquartile mean, intervals, probability of improvement, permutation tests.

Two algorithms are compared on common seeds, by their differences on each seed. Everything here is about
one quantity, the interquartile mean (IQM) of these differences: the point is that of the sample, and the
interval is one for that of the population. Which interval covers it was measured, not assumed
(`benchmarks/results/calibration.json`, 2,000 truths for each distribution and number of seeds):

- below 10 seeds, mean +- t s / sqrt(n). It is the textbook interval of the mean; as an interval of the
  IQM it is as good under symmetry and better under skew, where it misses the mean too often.
- from 10 on, a bootstrap over seeds, studentised by the winsorised standard error. The percentile
  bootstrap of rliable (arXiv:2108.13264) is a little too narrow there, and far too narrow at 3 seeds.

Strata are tasks or cells that every seed ran. All weigh the same, and a seed is drawn with all its strata
together: common random numbers correlate them, and drawing each stratum for itself would hide that.

Of the many values of one run there are percentile bootstrap intervals over positions, and `judge_peak`: is
the best of many evaluations better than the run, or only the luckiest?
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-12
"""Share of a value below which a difference is taken for rounding of float64 sums."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """One column of a comparison: an algorithm's result on every seed.

    Attributes:
        name: of the algorithm or setting, for sentences.
        seeds: S different seeds, at least 2.
        values: float64 `[S]`, or `[S, K]` with one value for each of K strata (tasks, cells), in the
            order of the seeds; all in one unit, which the strata share.
    """

    name: str
    seeds: tuple[int, ...]
    values: Floats

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim not in (1, 2) or values.size == 0 or len(values) != len(self.seeds):
            raise ValueError(
                f"{self.name}: values are shaped {values.shape} for {len(self.seeds)} seeds; "
                "expected [seeds] or [seeds, strata], a value for every seed"
            )
        if len(self.seeds) < 2:
            raise ValueError(
                f"{self.name}: seeds are {self.seeds}; one seed says nothing about the spread over "
                "seeds, run at least 2"
            )
        repeated = [seed for seed, count in Counter(self.seeds).items() if count > 1]
        if repeated:
            raise ValueError(
                f"{self.name}: seeds {repeated} occur more than once; a repeated run is no new "
                "evidence, give each seed once"
            )
        bad = [
            seed for seed, row in zip(self.seeds, values, strict=True) if not np.isfinite(row).all()
        ]
        if bad:
            raise ValueError(
                f"{self.name}: the values of seeds {bad} are not finite; leave these seeds out of "
                "every column and report them as broken"
            )
        values.flags.writeable = False
        object.__setattr__(self, "seeds", tuple(int(seed) for seed in self.seeds))
        object.__setattr__(self, "values", values)


def paired_differences(ours: Scores, theirs: Scores) -> Floats:
    """`[S]` ours minus theirs on each seed, in the order of `ours`, averaged over the strata.

    A difference within `ROUNDING` of the values is 0: two columns that do the same sum in another
    order are equal, and must not become a difference that all seeds agree on.

    Raises:
        ValueError: the columns have different seeds or different strata.
    """
    alone = sorted(set(ours.seeds) ^ set(theirs.seeds))
    if alone:
        raise ValueError(
            f"seeds {alone} are in only one of {ours.name} and {theirs.name}: a paired comparison "
            "needs the same seeds on both sides; run them or leave them out"
        )
    if ours.values.shape != theirs.values.shape:
        raise ValueError(
            f"{ours.name} is shaped {ours.values.shape} and {theirs.name} {theirs.values.shape}: "
            "expected the same strata on both sides"
        )
    order = [theirs.seeds.index(seed) for seed in ours.seeds]
    differences = ours.values - theirs.values[order]
    sizes = np.maximum(np.abs(ours.values), np.abs(theirs.values[order]))
    differences = np.where(np.abs(differences) <= ROUNDING * sizes, 0.0, differences)
    return differences if differences.ndim == 1 else differences.mean(1)


def finite_array(values: ArrayLike, name: str, *, at_least: int) -> Floats:
    """The values as float64.

    Raises:
        ValueError: the last axis is shorter than `at_least`, or a value is not finite.
    """
    found = np.asarray(values, dtype=np.float64)
    if found.ndim == 0 or found.shape[-1] < at_least:
        raise ValueError(f"{name} are shaped {found.shape}: expected at least {at_least} of them")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} are {found}: expected finite numbers; leave broken seeds out")
    return found


BOOTSTRAP_FROM_SEEDS = 10
"""From this many seeds on the interval is a bootstrap; below, Student t."""

EXACT_FLIPS_UP_TO = 16
"""Up to this many seeds all 2^n sign flips are counted; above, 2^16 - 1 random ones."""

RESAMPLES, POSITION_RESAMPLES = 1999, 2000
"""Bootstrap resamples of seeds (the 2.5 % quantile is the 50th of them) and of a run's positions."""

LEVEL, ALPHA = 0.95, 0.05
"""Nominal coverage of every interval; probability of one false claim or more in a family."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """An interval estimate.

    Attributes:
        low: lower end.
        high: upper end.
        level: share of such intervals that are meant to cover the truth, 0.95 for 95 %.
        method: how it was made.
    """

    low: float
    high: float
    level: float
    method: Literal[
        "student_t", "studentised_bootstrap", "jeffreys", "wilson", "dirichlet_beta", "pairs_alike"
    ]

    def excludes(self, value: float) -> bool:
        """Whether the value is outside."""
        return not self.low <= value <= self.high


def interquartile_mean(values: ArrayLike) -> Floats:
    """`[...]` mean of the middle half of `[..., S]`, the 25 % trimmed mean; 0-dimensional for one row.

    Exact for every S: the values at the quartiles count with the fraction of them that lies inside,
    so 5 values in order weigh 0, 0.3, 0.4, 0.3, 0.

    Raises:
        ValueError: there are no values, or one is not finite.
    """
    values = finite_array(values, "values", at_least=1)
    return np.asarray(np.sort(values, axis=-1) @ _iqm_weights(values.shape[-1]))


def difference_interval(differences: ArrayLike) -> Interval:
    """Interval for the interquartile mean of the differences `[S]` that all possible seeds would give.

    Student t below `BOOTSTRAP_FROM_SEEDS`, a studentised bootstrap from there on: see the module for
    what they cover. Where so many differences are equal that resamples have no spread, Student t.
    Equal input gives an equal interval.

    Raises:
        ValueError: fewer than 2 differences, or one is not finite.
    """
    differences = _row(differences)
    count = len(differences)
    if count >= BOOTSTRAP_FROM_SEEDS:
        centre, error = interquartile_mean(differences), _iqm_error(differences)
        drawn = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
        resampled = differences[drawn]
        errors = _iqm_error(resampled)
        spread = errors > 1e-9 * np.abs(differences).max()
        if spread.mean() > 1.0 - 0.1 * (1.0 - LEVEL):
            ratios = (interquartile_mean(resampled) - centre)[spread] / errors[spread]
            low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            ends = float(centre - high * error), float(centre - low * error)
            return Interval(*ends, LEVEL, "studentised_bootstrap")
    from scipy.special import stdtrit  # quantile of Student's t

    mean = float(differences.mean())
    half = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * float(differences.std(ddof=1))
    half /= math.sqrt(count)
    return Interval(mean - half, mean + half, LEVEL, "student_t")


def probability_of_improvement(
    differences: ArrayLike, *, higher_is_better: bool
) -> tuple[float, Interval]:
    """Share of the seeds `[S]` on which ours is better (a tie counts half), and its interval.

    The chance that ours comes out ahead on a new seed that both run. rliable's probability of the
    same name (arXiv:2108.13264) sets every seed of one against every seed of the other, which would
    throw away that the seeds are common. Interval: Jeffreys' (Brown, Cai and DasGupta 2001,
    doi:10.1214/ss/1009213286), 0 or 1 where no or every seed is ahead. Counts of few seeds are coarse:
    it covers 95 % on average over the true probabilities, but at the worst one 87 to 90 %.

    Raises:
        ValueError: fewer than 2 differences, or one is not finite.
    """
    differences = _row(differences)
    count = len(differences)
    ahead = differences > 0 if higher_is_better else differences < 0
    wins = float(ahead.sum() + 0.5 * (differences == 0).sum())
    return wins / count, share_interval(wins, count)


def share_interval(hits: float, count: int) -> Interval:
    """Jeffreys' interval of a probability of which `hits` of `count` were seen; 0 or 1 where none or all were.

    Raises:
        ValueError: `count` is below 1, or `hits` outside 0 to `count`.
    """
    from scipy.special import betaincinv  # quantile of the Beta distribution

    if not (count >= 1 and 0 <= hits <= count):
        raise ValueError(f"{hits} of {count}: expected a count of at least 1 and no more hits")
    shapes = hits + 0.5, count - hits + 0.5
    low = float(betaincinv(*shapes, (1 - LEVEL) / 2)) if hits > 0 else 0.0
    high = float(betaincinv(*shapes, (1 + LEVEL) / 2)) if hits < count else 1.0
    return Interval(low, high, LEVEL, "jeffreys")


def wilson_interval(hits: float, count: int) -> Interval:
    """Wilson's score interval of a probability of which `hits` of `count` were seen.

    `hits` may be a sum of shares between 0 and 1. These spread less than hits and misses of the same mean do, so that
    the interval is then wider than it need be. Wilson 1927, doi:10.1080/01621459.1927.10502953.

    Raises:
        ValueError: `count` is below 1, or `hits` outside 0 to `count`.
    """
    from scipy.special import ndtri  # quantile of the normal distribution

    if not (count >= 1 and 0 <= hits <= count):
        raise ValueError(f"{hits} of {count}: expected a count of at least 1 and no more hits")
    z = float(ndtri((1 + LEVEL) / 2))
    share, spread = hits / count, z * z / count
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Interval(low if hits > 0 else 0.0, high if hits < count else 1.0, LEVEL, "wilson")


def sign_flip_p(differences: ArrayLike) -> Floats:
    """`[...]` two-sided p-values of no difference, by flipping the signs of `[..., S]`.

    If the two columns are drawn alike, a seed's difference is as probable with the other sign. The
    p-value is the share of all 2^S sign patterns whose mean is at least as far from 0 as the one that
    was seen: exact, without any assumption about the distribution, and never below 2 / 2^S. Above
    `EXACT_FLIPS_UP_TO` seeds random patterns stand for all, the same ones at every call.

    Raises:
        ValueError: fewer than 2 differences, or one is not finite.
    """
    differences = finite_array(differences, "differences", at_least=2)
    rows = differences.reshape(-1, differences.shape[-1])
    patterns = _sign_patterns(differences.shape[-1])
    # Patterns that give the seen sum in another order of addition may differ by rounding.
    seen = np.abs(rows.sum(1)) - 1e-12 * np.abs(rows).sum(1)
    as_far = np.concatenate(
        [
            (np.abs(patterns @ rows[start : start + 64].T) >= seen[start : start + 64]).sum(0)
            for start in range(0, len(rows), 64)
        ]
    )
    if differences.shape[-1] > EXACT_FLIPS_UP_TO:
        p_values = (as_far + 1) / (len(patterns) + 1)  # the seen pattern is one of them
    else:
        p_values = as_far / len(patterns)
    return p_values.reshape(differences.shape[:-1])


def holm(p_values: ArrayLike) -> Floats:
    """`[..., C]` p-values adjusted for C comparisons: reject where at most alpha.

    Holm 1979 (https://www.jstor.org/stable/4615733): the probability of one false rejection or more
    is at most alpha, however the comparisons depend on each other.

    Raises:
        ValueError: there is none, or one is not a probability.
    """
    p_values = finite_array(p_values, "p_values", at_least=1)
    if (p_values < 0).any() or (p_values > 1).any():
        raise ValueError(f"p_values are {p_values}: expected probabilities in [0, 1]")
    order = np.argsort(p_values, axis=-1)
    steps = np.arange(p_values.shape[-1], 0, -1)
    stepped = np.maximum.accumulate(np.take_along_axis(p_values, order, -1) * steps, axis=-1)
    adjusted = np.empty_like(p_values)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), -1)
    return adjusted


def minimum_seeds(comparisons: int) -> int:
    """Fewest seeds with which `sign_flip_p` after `holm` can reject at all: 2 / 2^n <= `ALPHA` / C.

    6 for one comparison and 8 for the six pairs of four algorithms.
    """
    return next(n for n in itertools.count(2) if 2.0 ** (1 - n) * comparisons <= ALPHA)


def _row(differences: ArrayLike) -> Floats:
    """The differences as float64 `[S]`.

    Raises:
        ValueError: they are no row of at least 2 finite numbers.
    """
    row = finite_array(differences, "differences", at_least=2)
    if row.ndim != 1:
        raise ValueError(f"differences are shaped {row.shape}: expected one row, [seeds]")
    return row


@functools.lru_cache(maxsize=64)
def _iqm_weights(count: int) -> Floats:
    """`[S]` weight of each value in order; they sum to 1."""
    ranks = np.arange(count)
    inside = np.minimum(ranks + 1, 0.75 * count) - np.maximum(ranks, 0.25 * count)
    return np.clip(inside, 0, None) / (count / 2)


def _iqm_error(values: Floats) -> Floats:
    """`[...]` standard error of the IQM of `[..., S]`: winsorised deviation over sqrt(S) / 2.

    Tukey and McLaughlin 1963; with whole values winsorised, so a little off where S / 4 is not
    whole. The studentised bootstrap needs it only up to a factor.
    """
    count = values.shape[-1]
    cut = count // 4
    ordered = np.sort(values, axis=-1)
    kept = np.clip(ordered, ordered[..., cut, None], ordered[..., count - 1 - cut, None])
    return np.asarray(kept.std(-1, ddof=1) / (0.5 * math.sqrt(count)), dtype=np.float64)


@functools.lru_cache(maxsize=4)
def _sign_patterns(count: int) -> Floats:
    """`[patterns, S]` of +1 and -1: all with a first +1 (the others mirror them), or random ones."""
    if count <= EXACT_FLIPS_UP_TO:
        flipped = np.arange(2 ** (count - 1))[:, None] >> np.arange(count)[::-1] & 1
    else:
        flipped = np.random.default_rng(0).integers(0, 2, (2**EXACT_FLIPS_UP_TO - 1, count))
    return np.where(flipped, -1.0, 1.0)


def bootstrap_interval(values: Floats, *, seed: int = 0) -> tuple[float, float]:
    """(low, high) 95 % percentile bootstrap interval of the mean of independent values `[M]`.

    Raises:
        ValueError: no values.
    """
    if len(values) == 0:
        raise ValueError("no values: a bootstrap interval needs at least one")
    rng, count = np.random.default_rng(seed), len(values)
    rows = max(1, 2**14 // count)  # at a time: each draw costs more to begin than its values do
    sizes = [min(rows, POSITION_RESAMPLES - begun) for begun in range(0, POSITION_RESAMPLES, rows)]
    means = np.concatenate([values[rng.integers(count, size=(n, count))].mean(1) for n in sizes])
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def percent_interval(start: Floats, end: Floats) -> tuple[float, float]:
    """95 % bootstrap interval of 100 x mean(end) / mean(start), positions resampled in pairs."""
    rng = np.random.default_rng(0)
    index = rng.integers(len(start), size=(POSITION_RESAMPLES, len(start)))
    shares = 100 * end[index].mean(1) / start[index].mean(1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(low), float(high)


@dataclasses.dataclass(frozen=True)
class Peak:
    """The best evaluation of a run against the others.

    Attributes:
        index: of the best evaluation, the first of equals.
        evaluations: how many there were.
        score: of the best one, in the scores' unit.
        level: what the other evaluations predict for it.
        p_value: probability that the best of so many is this far off at least, if the run is at its
            level throughout; corrected for the number of evaluations. 1 where nothing can be said.
        cannot_be_judged: the others lie exactly on the level and the peak does not: how far one evaluation
            strays from it by luck is unknown then.
    """

    index: int
    evaluations: int
    score: float
    level: float
    p_value: float
    cannot_be_judged: bool = False

    @property
    def is_noise(self) -> bool:
        """Whether luck explains it: nothing shows that this evaluation's weights are better."""
        return self.p_value > ALPHA


def judge_peak(scores: ArrayLike, *, higher_is_better: bool, trend: bool = False) -> Peak:
    """The verdict on the best of a run's evaluations `[m]`.

    The level is fitted to the others and the peak's distance is in standard errors of prediction
    (deleted residual; without trend, Grubbs 1950, doi:10.1214/aoms/1177729885). The noise is the spread
    of the others around the level, taken as normal; heavy tails are called real too often
    (`benchmarks/results/calibration.json`). A plateau never stands out from itself: this asks about one
    evaluation, not whether the run improved.

    Args:
        scores: in the order of the run.
        higher_is_better: whether the peak is the maximum or the minimum.
        trend: fit a line instead of a constant: for a run that is still improving.

    Raises:
        ValueError: too few scores, or one is not finite.
    """
    from scipy.special import stdtr

    fitted = 2 if trend else 1
    found = finite_array(scores, "scores", at_least=fitted + 3)
    if found.ndim != 1:
        raise ValueError(f"scores are shaped {found.shape}: expected one row, [evaluations]")
    count = len(found)
    index = int(found.argmax() if higher_is_better else found.argmin())
    others = np.delete(np.arange(count), index)
    design = np.vander(np.arange(count) - float(index), fitted)  # at the peak: (0, 1) or (1,)
    coefficients = np.linalg.lstsq(design[others], found[others], rcond=None)[0]
    level = float(coefficients[-1])
    ahead = (float(found[index]) - level) * (1.0 if higher_is_better else -1.0)
    # Variance of a new observation around the fitted value there, in units of one evaluation's.
    variance = 1.0 + float(np.linalg.inv(design[others].T @ design[others])[-1, -1])
    freedom = count - 1 - fitted
    residuals = found[others] - design[others] @ coefficients
    noise = math.sqrt(float((residuals**2).sum()) / freedom * variance)
    rounding = 1e-12 * float(np.abs(found).max())
    judged = noise > rounding or ahead <= rounding
    tail = float(stdtr(freedom, -ahead / noise)) if noise > rounding else 1.0
    p_value = min(1.0, count * tail)
    return Peak(index, count, float(found[index]), level, p_value, not judged)
