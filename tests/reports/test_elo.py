"""Pentanomial scores and Elo: published examples, hand-computed cases, coverage by simulation."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.reports.elo import (
    PAIR_POINTS,
    PairScore,
    count_pairs,
    elo_of,
    joint_elo,
    judge_pairs,
)

# What fastchess printed for these pentanomials: (counts, Elo, +/-, nElo, +/-, LOS in percent, decimals).
# Its own unit tests, https://github.com/Disservin/fastchess/blob/master/app/tests/elo_test.cpp ("EloPentanomial 1"
# to "3"), and results quoted in https://github.com/Disservin/fastchess/issues/807 (the 168.40 one),
# https://github.com/Disservin/fastchess/pull/515, https://github.com/brunocodutra/cinder/pull/879 and
# https://github.com/lynx-chess/Lynx/pull/1899.
PUBLISHED = [
    ((34, 54, 63, 64, 75), 55.58, 27.65, 57.94, 28.28, 100.00),
    ((332, 433, 498, 333, 334), -8.64, 10.33, -9.17, 10.96, 5.05),
    ((7895, 8757, 5685, 568, 9999), -21.04, 2.95, -19.01, 2.65, 0.00),
    ((30, 6, 18, 0, 6), -168.40, 73.37, -170.08, 62.16, 0.00),
    ((0, 1, 4, 0, 0), -34.86, 62.20, -122.84, 215.34, 13.18),
    ((115, 1156, 2443, 1233, 141), 4.40, 3.91, 7.61, 6.75, 98.64),
    ((235, 1384, 2521, 1341, 239), -1.06, 4.05, -1.67, 6.37, 30.33),
]

COUNTS = st.lists(st.integers(0, 300), min_size=5, max_size=5).filter(any)


def margin_of_fastchess(result: PairScore) -> float:
    """Half the width of the interval that fastchess prints: a normal one of the score, its ends transformed."""
    half = 1.959963984540054 * math.sqrt(result.variance / result.pairs)
    low, high = elo_of(result.score - half), elo_of(result.score + half)
    assert low is not None and high is not None
    return (high - low) / 2


@pytest.mark.parametrize(("counts", "elo", "margin", "nelo", "nelo_margin", "los"), PUBLISHED)
def test_elo_nelo_and_los_are_those_that_fastchess_prints(
    counts: tuple[int, ...], elo: float, margin: float, nelo: float, nelo_margin: float, los: float
) -> None:
    result = judge_pairs(counts)
    assert result.elo.point == pytest.approx(elo, abs=0.006)
    assert margin_of_fastchess(result) == pytest.approx(margin, abs=0.006)
    assert result.nelo == pytest.approx(nelo, abs=0.006)
    assert result.nelo_margin == pytest.approx(nelo_margin, abs=0.006)
    assert 100 * result.los == pytest.approx(los, abs=0.006)


def test_a_case_computed_by_hand() -> None:
    result = judge_pairs([1, 0, 2, 0, 1])
    assert result.pairs == 4
    assert result.score == 0.5
    assert result.variance == (0.25 + 0 + 0 + 0.25) / 4
    assert result.elo.point == 0
    assert result.nelo == 0
    assert result.los == 0.5
    # Prior 1/5 each: mean 1/2, second moment (.2/16 + 2.2/4 + .2 * 9/16 + 1.2) / 5 = 3/8, so the
    # variance is (3/8 - 1/4) / 6 and the Beta one of shapes 5.5 and 5.5.
    x = np.linspace(0, 1, 200_001)
    density = (x * (1 - x)) ** 4.5
    below = np.cumsum(density) / density.sum()
    assert result.interval.low == pytest.approx(x[np.searchsorted(below, 0.025)], abs=1e-4)
    assert result.interval.high == pytest.approx(x[np.searchsorted(below, 0.975)], abs=1e-4)


def test_elo_of_a_score_is_the_logistic_formula() -> None:
    assert elo_of(0.5) == 0
    assert elo_of(10 / 11) == pytest.approx(400)
    assert elo_of(1 / 11) == pytest.approx(-400)
    assert elo_of(0.0) is None
    assert elo_of(1.0) is None
    with pytest.raises(ValueError, match=r"score is 1\.5.*share of the points"):
        elo_of(1.5)


@pytest.mark.parametrize("pairs", [1, 10, 100])
def test_a_whitewash_gives_a_bound_and_says_so(pairs: int) -> None:
    lost = judge_pairs([pairs, 0, 0, 0, 0])
    # With any larger probability of another outcome, 0 points in all pairs would come in under 5 %.
    assert (1 - lost.interval.high) ** pairs == pytest.approx(0.05)
    assert (lost.score, lost.interval.low) == (0, 0)
    assert lost.elo.point is None
    assert lost.elo.low is None
    assert lost.elo.high == elo_of(lost.interval.high)
    assert str(lost.elo).startswith("below")
    assert "any distribution" in lost.note
    assert lost.los < 0.5
    won = judge_pairs([0, 0, 0, 0, pairs])
    assert won.elo.high is None
    assert won.elo.low == pytest.approx(-lost.elo.high)
    assert str(won.elo).startswith("above")
    assert won.los == pytest.approx(1 - lost.los)


def test_pairs_that_are_all_drawn_do_not_give_an_interval_of_no_width() -> None:
    drawn = judge_pairs([0, 0, 50, 0, 0])
    others = 1 - 0.05 ** (1 / 50)
    assert drawn.interval.low == pytest.approx(0.5 - 0.5 * others)
    assert drawn.interval.high == pytest.approx(0.5 + 0.5 * others)
    assert drawn.nelo is None
    assert drawn.los == pytest.approx(0.5)
    assert drawn.note == (
        "all 50 pairs gave 1 of 2 points: the interval is a bound for any distribution"
    )


@settings(max_examples=40)
@given(COUNTS)
def test_the_other_players_view_is_the_mirror_image(counts: list[int]) -> None:
    ours, theirs = judge_pairs(counts), judge_pairs(counts[::-1])
    assert ours.score == pytest.approx(1 - theirs.score)
    assert ours.interval.low == pytest.approx(1 - theirs.interval.high, abs=1e-9)
    assert ours.los == pytest.approx(1 - theirs.los, abs=1e-9)


@settings(max_examples=40)
@given(COUNTS)
def test_the_interval_holds_the_score_and_nothing_is_infinite(counts: list[int]) -> None:
    result = judge_pairs(counts)
    assert 0 <= result.interval.low <= result.score <= result.interval.high <= 1
    assert result.interval.low < result.interval.high
    json.dumps(result.to_dict(), allow_nan=False)
    assert str(result.elo)


@pytest.mark.parametrize("pairs", [50_000, 10**7])
def test_any_number_of_drawn_pairs_is_judged(pairs: int) -> None:
    drawn = judge_pairs([0, 0, pairs, 0, 0])
    assert drawn.los == pytest.approx(0.5, abs=1e-6)
    assert drawn.interval.high == pytest.approx(0.5 + 0.5 * (1 - 0.05 ** (1 / pairs)))


@pytest.mark.parametrize("pairs", [10**6, 9 * 10**6])
def test_the_interval_of_very_many_pairs_is_the_normal_one_of_the_posterior(pairs: int) -> None:
    # Posterior weights .2, .2, .2, pairs + .2 and 1.2 of the shares 0, .25, .5, .75 and 1.
    judged = judge_pairs([0, 0, 0, pairs, 1])
    mean = 0.75 + (0.2 * (-0.75 - 0.5 - 0.25) + 1.2 * 0.25) / (pairs + 2)
    spread = 0.2 * (0.75**2 + 0.5**2 + 0.25**2) + 1.2 * 0.25**2
    half = 1.959963984540054 * math.sqrt(spread) / pairs
    assert judged.interval.low - mean == pytest.approx(-half, rel=1e-3)
    assert judged.interval.high - mean == pytest.approx(half, rel=1e-3)
    assert judged.los == 1


def test_pairs_are_counted_by_their_points() -> None:
    assert count_pairs([0, 2, 1, 1, 0.5, 1.5, 1]) == (1, 1, 3, 1, 1)
    with pytest.raises(ValueError, match=r"0\.25 points"):
        count_pairs([1, 0.25])


@pytest.mark.parametrize("counts", [[0] * 5, [1, 2, 3], [1, -1, 0, 0, 0], [0.5, 0, 0, 0, 1]])
def test_counts_that_are_none_are_refused(counts: list[float]) -> None:
    with pytest.raises(ValueError, match="five whole numbers"):
        judge_pairs(counts)


def truths(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    """float64 [5]: what a pair gives, for a random score, share of draws, opening bias and likeness of games."""
    score = rng.uniform(low, high)
    draws = rng.uniform(0, 0.9) * 2 * min(score, 1 - score)
    bias = rng.uniform(0, 1) * min(score, 1 - score, 0.3)
    games = []
    for mean in (score + bias, score - bias):
        drawn = min(draws, 2 * min(mean, 1 - mean))
        games.append(np.array([1 - mean - drawn / 2, drawn, mean - drawn / 2]))
    apart = np.convolve(*games)
    first = games[0] / 2 + games[1] / 2
    alike = np.array([first[0], 0, first[1], 0, first[2]])
    likeness = rng.choice([0.0, rng.uniform()])
    return (1 - likeness) * apart + likeness * alike


def coverage(truth_count: int, pairs: int, low: float, high: float, seed: int) -> float:
    rng = np.random.default_rng(seed)
    covered = 0
    for _ in range(truth_count):
        truth = truths(rng, low, high)
        interval = judge_pairs(rng.multinomial(pairs, truth / truth.sum())).interval
        covered += not interval.excludes(float(truth @ np.array(PAIR_POINTS)) / 2)
    return covered / truth_count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scores", "pairs"), [((0.1, 0.9), 500), ((0.1, 0.15), 100), ((0.45, 0.55), 500)]
)
def test_intervals_cover_95_percent_of_2000_truths(scores: tuple[float, float], pairs: int) -> None:
    assert 0.93 <= coverage(2000, pairs, *scores, seed=pairs) <= 0.97


@pytest.mark.slow
def test_the_bound_for_pairs_that_are_alike_is_missed_in_at_most_five_percent() -> None:
    # Truths that hardly ever leave 1-1, where every interval from the sample's variance fails.
    rng = np.random.default_rng(5)
    for chance in (0.003, 0.01, 0.02, 0.029):
        truth = np.array([0, 0, 1 - chance, chance, 0])
        missed = 0
        for counts in rng.multinomial(100, truth, size=2000):
            missed += judge_pairs(counts).interval.excludes(float(truth @ np.arange(5)) / 4)
        assert missed / 2000 <= 0.06


@settings(max_examples=50)
@given(COUNTS, st.integers(500, 3000))
def test_the_joint_elo_of_one_match_is_the_label_and_its_difference(
    counts: list[int], label: int
) -> None:
    joint, alone = joint_elo([label], [counts]), judge_pairs(counts).elo
    for found, difference in zip(
        (joint.point, joint.low, joint.high), (alone.point, alone.low, alone.high), strict=True
    ):
        assert (found is None) == (difference is None)
        if found is not None and difference is not None:
            assert found == pytest.approx(label + difference, abs=1e-4)


def test_the_joint_elo_expects_the_points_that_were_made() -> None:
    # 40 % against 1350 and 20 % against 1500, as many pairs of each: by hand, and between the two alone.
    counts = [(20, 20, 20, 20, 0), (60, 0, 10, 0, 10)]
    points = [judge_pairs(each).score for each in counts]
    joint = joint_elo([1350, 1500], counts)
    assert joint.point is not None and joint.low is not None and joint.high is not None
    expected = [1 / (1 + 10 ** ((label - joint.point) / 400)) for label in (1350, 1500)]
    assert sum(expected) == pytest.approx(sum(points), abs=1e-9)
    alone = [joint_elo([label], [each]) for label, each in zip((1350, 1500), counts, strict=True)]
    ends = sorted(each.point for each in alone if each.point is not None)
    assert ends[0] < joint.point < ends[1]
    assert joint.high - joint.low < min(e.high - e.low for e in alone if e.high and e.low)
    assert str(joint) == f"{joint.point:.0f} ({joint.low:.0f} to {joint.high:.0f})"


def test_a_player_without_a_point_has_a_bound_alone_and_no_match_is_refused() -> None:
    none, every = (20, 0, 0, 0, 0), (0, 0, 0, 0, 20)
    assert str(joint_elo([1350, 1500], [none, none])).startswith("below ")
    assert str(joint_elo([1350, 1500], [every, every])).startswith("above ")
    both = joint_elo([1000, 2000], [every, none])
    assert both.point == pytest.approx(1500)
    with pytest.raises(ValueError, match="play at least one"):
        joint_elo([], [])


@pytest.mark.slow
@pytest.mark.parametrize("elo", [900, 1100, 1400])
def test_the_joint_interval_holds_the_truth_in_about_95_percent(elo: int) -> None:
    rng, labels, held = np.random.default_rng(elo), (1350, 1700, 2200), 0
    for _ in range(400):
        counts = []
        for label in labels:
            win = 1 / (1 + 10 ** ((label - elo) / 400))
            draw = min(0.2, 2 * min(win, 1 - win))
            shares = [win - draw / 2, draw, 1 - win - draw / 2]
            points = rng.choice([1.0, 0.5, 0.0], size=(50, 2), p=shares)
            counts.append(count_pairs(points.sum(1).tolist()))
        joint = joint_elo(labels, counts)
        held += (joint.low or -math.inf) <= elo <= (joint.high or math.inf)
    assert 0.92 <= held / 400 <= 0.99
