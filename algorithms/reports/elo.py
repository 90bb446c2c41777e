"""Scores of game pairs: mean, intervals, Elo, normalised Elo, likelihood of superiority.

A pair is one opening played twice with colours swapped; its two games depend on each other, so the pair and
not the game is what is counted: how many pairs gave 0, 0.5, 1, 1.5 and 2 points (the pentanomial of fishtest
and fastchess). Point estimates, nElo and LOS are those that fastchess prints. The 95 % interval is not: mean
+- 1.96 standard errors is too narrow where few pairs differ from the rest, and no interval at all where none
does. Which interval covers was measured (100 pairs; 44 kinds of truth: scores of .1 to .9, no draws to only
draws, openings that favour a side, pairs whose games repeat each other, pairs that end 1-1 in 70 to 98 of 100;
4,000 matches each): normal 86 to 95 %, Student t 86 to 95 %, Wilson with the design effect 86 to 97 %, the one
used here 93 to 96 %, and more for truths that hardly ever leave 1-1. docs/eval.md has the coverage of what is
used here, which the slow tests measure again.

It is the posterior of the mean under a Dirichlet prior of 1/5 for each of the five outcomes (one pair in all;
Berger, Bernardo and Sun 2015, doi:10.1214/14-BA915), as the Beta distribution with the same mean and
variance. Where all pairs ended alike it is replaced by what holds for every distribution: the outcome was
seen n times in n, so the others together have a probability of at most 1 - 0.05^(1/n).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from algorithms.reports.statistics import LEVEL, Floats, Interval

MOST_PAIRS = 10_000_000
"""Where all of more pairs end alike, the posterior is too narrow for the Beta distribution in float64."""

PAIR_POINTS = (0.0, 0.5, 1.0, 1.5, 2.0)
"""What a pair can give, in the order of the counts."""

_SCORES = np.array(PAIR_POINTS) / 2
_PRIOR = 1 / len(PAIR_POINTS)
_Z = 1.959963984540054
_NELO = 800 / math.log(10)


@dataclasses.dataclass(frozen=True)
class EloDifference:
    """A difference of strength in Elo, with its 95 % interval; positive where the player is stronger.

    Attributes:
        point: the estimate; None at a score of 0 or 1, where every finite value is too small.
        low: lower end; None where there is none.
        high: upper end; None where there is none.
    """

    point: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Such as `+35 (+8 to +63)`, or `below -612` for a player that has not scored."""
        if self.high is None:
            return f"above {self.low:+.0f}"
        if self.low is None:
            return f"below {self.high:+.0f}"
        return f"{self.point:+.0f} ({self.low:+.0f} to {self.high:+.0f})"


@dataclasses.dataclass(frozen=True)
class JointElo:
    """A player's Elo by its matches against several players whose Elo is taken as known, on the scale of theirs.

    Attributes:
        point: the Elo at which as many points are expected as were made; None at none of them, or at all.
        low: lower end of its 95 % interval; None where there is none.
        high: upper end; None where there is none.
        pairs: number of pairs of all matches.
    """

    point: float | None
    low: float | None
    high: float | None
    pairs: int

    def __str__(self) -> str:
        """Such as `1180 (1127 to 1230)`, or `below 690` for a player that has not scored."""
        if self.high is None:
            return f"above {self.low:.0f}"
        if self.low is None:
            return f"below {self.high:.0f}"
        return f"{self.point:.0f} ({self.low:.0f} to {self.high:.0f})"


@dataclasses.dataclass(frozen=True)
class PairScore:
    """The score of a number of game pairs, from one player's view, with its intervals.

    Attributes:
        counts: number of pairs with 0, 0.5, 1, 1.5 and 2 points.
        score: mean share of the points, 0..1.
        variance: of a pair's share of its points (divided by the number of pairs, as fastchess does).
        interval: 95 % interval for the score; its `method` says how it was made.
        elo: logistic Elo difference; its interval is that of the score, transformed.
        nelo: normalised Elo, which does not depend on the share of draws: (score - 1/2) over the standard
            deviation of a game, times 800 / ln 10. None where all pairs ended alike: it has no unit then.
        nelo_margin: half the width of its 95 % interval, normal. None with it.
        los: likelihood of superiority, 0..1: normal, as everywhere; from the posterior where all pairs
            ended alike.
    """

    counts: tuple[int, int, int, int, int]
    score: float
    variance: float
    interval: Interval
    elo: EloDifference
    nelo: float | None
    nelo_margin: float | None
    los: float

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return sum(self.counts)

    @property
    def note(self) -> str:
        """A caution about the interval, or ""."""
        if self.interval.method != "pairs_alike":
            return ""
        ended = f"all {self.pairs} pairs" if self.pairs > 1 else "the only pair"
        points = PAIR_POINTS[next(i for i, count in enumerate(self.counts) if count)]
        return f"{ended} gave {points:g} of 2 points: the interval is a bound for any distribution"

    def to_dict(self) -> dict[str, object]:
        """Everything as plain values; None stands for "no such bound" and is never infinite."""
        return {
            "pair_counts": list(self.counts),
            "pairs": self.pairs,
            "score": self.score,
            "score_low": self.interval.low,
            "score_high": self.interval.high,
            "interval_method": self.interval.method,
            "elo": self.elo.point,
            "elo_low": self.elo.low,
            "elo_high": self.elo.high,
            "nelo": self.nelo,
            "nelo_margin": self.nelo_margin,
            "los": self.los,
            "note": self.note,
        }


def count_pairs(points: Sequence[float]) -> tuple[int, int, int, int, int]:
    """Number of pairs with 0, 0.5, 1, 1.5 and 2 points, from each pair's points.

    Raises:
        ValueError: a value is none of these.
    """
    wrong = [value for value in points if value not in PAIR_POINTS]
    if wrong:
        raise ValueError(
            f"a pair has {wrong[0]} points: expected one of {PAIR_POINTS}, the sum of two games"
        )
    zero, half, one, more, two = (sum(value == kind for value in points) for kind in PAIR_POINTS)
    return zero, half, one, more, two


def judge_pairs(counts: Sequence[int]) -> PairScore:
    """Score, interval, Elo, normalised Elo and LOS of game pairs; see the module for what they are.

    Args:
        counts: number of pairs with 0, 0.5, 1, 1.5 and 2 points, from the view of the player judged.

    Raises:
        ValueError: not five counts of at least 0, no pair at all, or more than `MOST_PAIRS`.
    """
    found = np.asarray(counts)
    whole = found.shape == (5,) and found.dtype.kind in "iu" and (found >= 0).all()
    if not whole or not 1 <= found.sum() <= MOST_PAIRS:
        raise ValueError(
            f"pair counts are {list(counts)}: expected five whole numbers of at least 0, the pairs "
            f"with 0, 0.5, 1, 1.5 and 2 points, and from 1 to {MOST_PAIRS:,} pairs"
        )
    pairs = int(found.sum())
    score = float(found @ _SCORES) / pairs
    variance = float(found @ (_SCORES - score) ** 2) / pairs
    alike = bool((found == pairs).any())
    shapes = _posterior(found)
    interval = _bound_for_pairs_alike(score, pairs) if alike else _interval(score, shapes)
    elo = EloDifference(elo_of(score), elo_of(interval.low), elo_of(interval.high))
    zero, half, one, more, two = (int(count) for count in found)
    return PairScore(
        counts=(zero, half, one, more, two),
        score=score,
        variance=variance,
        interval=interval,
        elo=elo,
        nelo=None if alike else (score - 0.5) / math.sqrt(2 * variance) * _NELO,
        nelo_margin=None if alike else _Z / math.sqrt(2 * pairs) * _NELO,
        los=_los_alike(*shapes) if alike else _normal_los(score, variance, pairs),
    )


def joint_elo(labels: Sequence[float], counts: Sequence[Sequence[int]]) -> JointElo:
    """The Elo of a player by its matches against players of known Elo: maximum likelihood of the logistic curve.

    The points that a player of that Elo is expected to make are those that were made. The interval is that of the share
    of all points, as of one match, carried over by the curve; its prior is one pair in all, shared by the matches.
    In simulated matches of 50 pairs against three players (16 kinds of truth, from 450 Elo below the weakest to 50
    above, 10 and 40 % draws; 500 times each) it held the truth in 93 to 96 %. With one match it is that of
    `judge_pairs`. It knows nothing of labels that are wrong, nor of a player that does better against some styles.

    Args:
        labels: Elo of each opponent.
        counts: of each match the pairs with 0, 0.5, 1, 1.5 and 2 points, from the view of the player judged.

    Raises:
        ValueError: no match, or counts that `judge_pairs` refuses.
    """
    if not labels:
        raise ValueError("no match against a player whose Elo is known: play at least one")
    judged = [judge_pairs(each) for each in counts]
    pairs = np.array([each.pairs for each in judged])
    shares = pairs / pairs.sum()
    score = float(shares @ [each.score for each in judged])
    together = np.sum(counts, axis=0)
    if (together == pairs.sum()).any():
        interval = _bound_for_pairs_alike(score, int(pairs.sum()))
    else:
        parts = np.array([_moments(np.asarray(each), _PRIOR / len(labels)) for each in counts])
        interval = _interval(score, _shapes(shares @ parts[:, 0], shares**2 @ parts[:, 1]))

    def rating(share: float) -> float | None:
        difference = elo_of(share)
        if difference is None:
            return None
        from scipy.optimize import brentq

        def excess(elo: float) -> float:
            expected = [1 / (1 + 10 ** ((label - elo) / 400)) for label in labels]
            return float(shares @ expected) - share

        # Against the weakest alone it would be this much, against the strongest alone that much.
        return float(brentq(excess, min(labels) + difference - 1, max(labels) + difference + 1))

    return JointElo(rating(score), rating(interval.low), rating(interval.high), int(pairs.sum()))


def elo_of(score: float) -> float | None:
    """Logistic Elo difference 400 log10(s / (1 - s)) of an expected score; None for 0 and 1.

    Raises:
        ValueError: the score is not in [0, 1].
    """
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"score is {score}: expected a share of the points in [0, 1]")
    if score in (0.0, 1.0):
        return None
    return 400 * math.log10(score / (1 - score))


def _posterior(counts: Floats) -> tuple[float, float]:
    """Shapes of the Beta distribution with the posterior's mean and variance."""
    return _shapes(*_moments(counts, _PRIOR))


def _moments(counts: Floats, prior: float) -> tuple[float, float]:
    """(mean, variance) of the posterior of the mean."""
    weights = counts + prior
    total = float(weights.sum())
    mean = float(weights @ _SCORES) / total
    return mean, float(weights @ (_SCORES - mean) ** 2) / total / (total + 1)


def _shapes(mean: float, variance: float) -> tuple[float, float]:
    """Shapes of the Beta distribution with a mean and a variance."""
    size = mean * (1 - mean) / variance - 1
    return mean * size, (1 - mean) * size


def _interval(score: float, shapes: tuple[float, float]) -> Interval:
    from scipy.special import betaincinv  # quantile of the Beta distribution

    low, high = (float(betaincinv(*shapes, (1 + side * LEVEL) / 2)) for side in (-1, 1))
    # With a single half point in a hundred pairs the prior alone can lift the low end above the estimate.
    return Interval(min(low, score), max(high, score), LEVEL, "dirichlet_beta")


def _los_alike(a: float, b: float) -> float:
    from scipy.special import betaincc  # upper tail of the Beta distribution

    return float(betaincc(a, b, 0.5))


def _bound_for_pairs_alike(score: float, pairs: int) -> Interval:
    others = 1 - (1 - LEVEL) ** (1 / pairs)
    return Interval(score * (1 - others), score * (1 - others) + others, LEVEL, "pairs_alike")


def _normal_los(score: float, variance: float, pairs: int) -> float:
    return 0.5 * (1 + math.erf((score - 0.5) / math.sqrt(2 * variance / pairs)))
