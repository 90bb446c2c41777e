"""The rating at which half are solved: a case by hand, coverage, and where it cannot be told; Wilson's interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from algorithms.evaluation.half_solved import half_solved
from algorithms.reports.statistics import wilson_interval

RATINGS = np.array([1000.0, 1500.0, 2000.0])


def test_a_symmetric_case_crosses_in_the_middle() -> None:
    found = half_solved(RATINGS, np.array([75.0, 50.0, 25.0]), np.full(3, 100.0))
    assert found.rating == pytest.approx(1500, abs=1e-3) and found.why_not == ""
    assert found.low is not None and found.high is not None
    assert found.low < 1500 < found.high
    assert found.high - 1500 == pytest.approx(1500 - found.low, rel=1e-3)


def test_the_curve_is_that_of_maximum_likelihood() -> None:
    """Two ratings: the curve goes through both shares, so that it crosses where a straight line of log-odds does."""
    found = half_solved(
        np.array([1000.0, 2000.0]), np.array([90.0, 30.0]), np.array([100.0, 100.0])
    )
    easy, hard = np.log(9), np.log(3 / 7)
    assert found.rating == pytest.approx(1000 + 1000 * easy / (easy - hard), abs=0.01)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    ratings = np.arange(500.0, 2500.0, 20.0)
    probs = 1 / (1 + np.exp((ratings - 1400) / 300))
    counts = np.full(len(ratings), 3.0)
    covers = 0
    for _ in range(400):
        found = half_solved(ratings, rng.binomial(3, probs).astype(float), counts)
        assert found.low is not None and found.high is not None
        covers += found.low <= 1400 <= found.high
    assert 0.92 <= covers / 400 <= 0.975


@pytest.mark.parametrize(
    ("solved", "why_not"),
    [
        ([0, 0, 0], "none is solved"),
        ([10, 10, 10], "all are solved"),
        ([10, 10, 0], "all up to 1500 are solved and none from 2000 on"),
        ([10, 5, 0], "all up to 1500 are solved and none from 1500 on"),
        ([0, 5, 10], "harder puzzles are not solved less often"),
        ([2, 5, 8], "harder puzzles are not solved less often"),
        ([3, 2, 1], "below 1000, outside of the puzzles' ratings"),
        ([9, 8, 7], "above 2000, outside of the puzzles' ratings"),
        ([6, 5, 4], "too few puzzles"),
    ],
)
def test_it_is_said_where_it_cannot_be_told(solved: list[int], why_not: str) -> None:
    found = half_solved(RATINGS, np.array(solved, float), np.full(3, 10.0))
    assert found.rating is found.low is found.high is None
    assert why_not in found.why_not


def test_no_puzzles_have_no_rating() -> None:
    assert half_solved(np.zeros(0), np.zeros(0), np.zeros(0)).why_not == "no puzzles"


@pytest.mark.parametrize(
    ("hits", "count"), [(0, 1), (1, 1), (3, 10), (0, 40), (40, 40), (168, 394)]
)
def test_wilsons_interval_is_scipys(hits: int, count: int) -> None:
    found, other = (
        wilson_interval(hits, count),
        binomtest(hits, count).proportion_ci(0.95, "wilson"),
    )
    assert (found.low, found.high) == pytest.approx((other.low, other.high), abs=1e-12)


@pytest.mark.parametrize(("hits", "count"), [(1, 0), (-1, 3), (4, 3)])
def test_wilsons_interval_wants_hits_of_a_count(hits: int, count: int) -> None:
    with pytest.raises(ValueError, match=f"{hits} of {count}"):
        wilson_interval(hits, count)
