from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.reports.statistics import (
    Scores,
    difference_interval,
    holm,
    interquartile_mean,
    minimum_seeds,
    paired_differences,
    probability_of_improvement,
    sign_flip_p,
)


def test_the_interquartile_mean_is_the_mean_of_the_middle_half() -> None:
    assert interquartile_mean([8, 1, 2, 100, 4, 5, 6, -70]) == pytest.approx((2 + 4 + 5 + 6) / 4)
    assert interquartile_mean([3, 1, 100, 2]) == pytest.approx(2.5)


def test_values_at_the_quartiles_count_with_the_fraction_inside() -> None:
    # The quartiles of 5 values lie at 1.25 and 3.75: weights 0, 0.75, 1, 0.75, 0 over 2.5.
    assert interquartile_mean([100, 0, 2, 4, 1]) == pytest.approx(0.3 * 1 + 0.4 * 2 + 0.3 * 4)
    # Of 3 values, quartiles at 0.75 and 2.25: weights 1/4, 1, 1/4 over 1.5.
    assert interquartile_mean([6, 0, 3]) == pytest.approx(3)
    assert interquartile_mean([0, 0, 6]) == pytest.approx(1)
    assert interquartile_mean([7.0]) == pytest.approx(7)


@given(
    values=st.lists(st.floats(-100, 100), min_size=2, max_size=24),
    shift=st.floats(-100, 100),
    scale=st.floats(0.01, 100),
)
@settings(max_examples=60)
def test_the_interquartile_mean_moves_with_the_values_and_ignores_their_order(
    values: list[float], shift: float, scale: float
) -> None:
    iqm = interquartile_mean(values)
    assert min(values) - 1e-9 <= iqm <= max(values) + 1e-9
    moved = interquartile_mean(scale * np.array(values[::-1]) + shift)
    np.testing.assert_allclose(moved, scale * iqm + shift, atol=1e-8)
    np.testing.assert_allclose(interquartile_mean(-np.array(values)), -iqm, atol=1e-9)


def test_differences_are_paired_by_seed_and_averaged_over_strata() -> None:
    ours = Scores("a", (1, 2, 3), np.array([[1.0, 3.0], [2.0, 2.0], [5.0, 1.0]]))
    theirs = Scores("b", (3, 1, 2), np.array([[1.0, 1.0], [0.0, 0.0], [4.0, 0.0]]))
    np.testing.assert_array_equal(paired_differences(ours, theirs), [2.0, 0.0, 2.0])


def test_rounding_is_no_difference() -> None:
    ours = Scores("a", (1, 2), np.array([0.1 + 0.2, 1.0]))
    theirs = Scores("b", (1, 2), np.array([0.3, 1.0 + 1e-9]))
    difference = paired_differences(ours, theirs)
    assert difference[0] == 0.0
    assert difference[1] == pytest.approx(-1e-9)


def test_below_ten_seeds_the_interval_is_student_t_s() -> None:
    interval = difference_interval([1.0, 2.0, 3.0, 4.0])
    half = 3.1824463 * (5 / 3) ** 0.5 / 2
    assert (interval.low, interval.high) == pytest.approx((2.5 - half, 2.5 + half))
    assert interval.method == "student_t"
    assert difference_interval(np.arange(9.0)).method == "student_t"
    assert difference_interval(np.arange(10.0)).method == "studentised_bootstrap"


def test_the_bootstrap_interval_moves_with_the_values_and_repeats_itself() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=12)
    interval = difference_interval(values)
    assert interval.low < interquartile_mean(values) < interval.high
    assert difference_interval(values) == interval
    moved = difference_interval(10 * values - 3)
    assert (moved.low, moved.high) == pytest.approx((10 * interval.low - 3, 10 * interval.high - 3))


def test_the_bootstrap_interval_is_the_studentised_one() -> None:
    values = np.sort(np.random.default_rng(7).exponential(size=12))

    def point_and_error(row: np.ndarray) -> tuple[float, float]:
        ordered = np.sort(row)
        winsorised = np.concatenate([[ordered[3]] * 3, ordered[3:9], [ordered[8]] * 3])
        return ordered[3:9].mean(), winsorised.std(ddof=1) / (0.5 * 12**0.5)

    point, error = point_and_error(values)
    rng = np.random.default_rng(1)
    resampled = [point_and_error(rng.choice(values, 12)) for _ in range(4000)]
    low, high = np.quantile([(p - point) / e for p, e in resampled if e > 0], [0.025, 0.975])
    interval = difference_interval(values)
    width = interval.high - interval.low
    assert interval.low == pytest.approx(point - high * error, abs=0.1 * width)
    assert interval.high == pytest.approx(point - low * error, abs=0.1 * width)
    assert interval.high - point > 1.2 * (
        point - interval.low
    )  # the long side is where the tail is


@pytest.mark.parametrize("count", [4, 12])
def test_equal_differences_give_a_point_and_nearly_equal_ones_a_finite_interval(count: int) -> None:
    interval = difference_interval(np.full(count, 0.25))
    assert (interval.low, interval.high) == (0.25, 0.25)
    mostly_zero = difference_interval(np.eye(count)[0])
    assert mostly_zero.method == "student_t"
    assert np.isfinite([mostly_zero.low, mostly_zero.high]).all()


def test_the_probability_of_improvement_counts_seeds_and_ties_by_half() -> None:
    share, interval = probability_of_improvement([1, 2, 3, -1], higher_is_better=True)
    assert share == 0.75
    assert 0.2 < interval.low < 0.75 < interval.high < 1.0
    other, mirrored = probability_of_improvement([1, 2, 3, -1], higher_is_better=False)
    assert other == 0.25
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - interval.high, 1 - interval.low))
    assert probability_of_improvement([1, 0, 0, -1, 2], higher_is_better=True)[0] == 0.6


def test_no_interval_of_an_improvement_reaches_past_certainty() -> None:
    share, interval = probability_of_improvement(np.ones(8), higher_is_better=True)
    assert (share, interval.high) == (1.0, 1.0)
    assert 0.7 < interval.low < 0.8  # eight of eight is no proof of more than three in four
    share, interval = probability_of_improvement(np.zeros(8), higher_is_better=True)
    assert share == 0.5
    assert interval.low == pytest.approx(1 - interval.high)


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [
        ([1, 2, 3], 2 / 8),
        ([-1, -2, -3], 2 / 8),
        ([3, 1, -1], 6 / 8),  # |+-3 +-1 +-1| >= 3 unless both ones oppose the three
        ([1, 1, -1], 1.0),
        ([0, 0, 0, 0], 1.0),
        ([0.1, 0.2, 0.3, -0.3], 12 / 16),  # sums that are equal but for rounding count as equal
        (np.ones(8), 2 / 256),
        (np.arange(1, 17), 2 / 65536),
    ],
)
def test_the_sign_flips_are_counted_exactly(differences: list[float], p_value: float) -> None:
    assert sign_flip_p(differences) == p_value


def test_a_table_of_differences_gives_each_row_s_p_value() -> None:
    table = np.random.default_rng(0).normal(0.5, 1.0, size=(7, 11, 8))
    rows = [[float(sign_flip_p(row)) for row in block] for block in table]
    np.testing.assert_array_equal(sign_flip_p(table), rows)
    np.testing.assert_array_equal(sign_flip_p(-3 * table), rows)


def test_above_sixteen_seeds_random_flips_come_near_all_of_them() -> None:
    differences = np.random.default_rng(3).normal(0.8, 1.0, size=18)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=9)))
    sums = np.add.outer(signs @ differences[:9], signs @ differences[9:])
    exact = (np.abs(sums) >= abs(differences.sum()) - 1e-12).mean()
    assert 0.01 < exact < 0.3
    assert sign_flip_p(differences) == pytest.approx(exact, abs=4 * (exact / 65536) ** 0.5)
    assert sign_flip_p(np.ones(18)) >= 1 / 65536  # the seen pattern itself counts


def test_holm_multiplies_the_smallest_by_all_and_keeps_the_order() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1.0, 1.0])
    np.testing.assert_allclose(holm([0.03]), [0.03])
    table = np.random.default_rng(0).random((5, 6))
    np.testing.assert_array_equal(holm(table), [holm(row) for row in table])


def test_the_minimum_of_seeds_is_the_first_that_can_reject() -> None:
    assert minimum_seeds(1) == 6
    assert minimum_seeds(6) == 8
    for comparisons in (1, 2, 3, 6, 10, 28):
        seeds = minimum_seeds(comparisons)
        for count, possible in ((seeds, True), (seeds - 1, False)):
            agreed = sign_flip_p(np.ones((comparisons, count)))
            agreed[1:] = 1.0
            assert (holm(agreed)[0] <= 0.05) is np.bool_(possible)


@pytest.mark.parametrize(
    ("seeds", "values", "message"),
    [
        ((1,), [0.5], "seeds are .1,.; one seed says nothing .* run at least 2"),
        ((1, 2, 2), [1, 2, 3], r"seeds \[2\] occur more than once; .* give each seed once"),
        ((1, 2), [1, 2, 3], r"shaped \(3,\) for 2 seeds; expected \[seeds\]"),
        ((1, 2), [1, np.nan], r"values of seeds \[2\] are not finite; leave these seeds out"),
        ((1, 2), [[1, 2], [np.inf, 0]], r"seeds \[2\] are not finite"),
        ((1, 2), np.zeros((2, 0)), r"shaped \(2, 0\)"),
    ],
)
def test_a_bad_column_is_refused_with_its_name(
    seeds: tuple[int, ...], values: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match="grpo: .*" + message):
        Scores("grpo", seeds, np.array(values))


def test_a_column_cannot_change_behind_a_comparison_s_back() -> None:
    values = np.array([1.0, 2.0])
    column = Scores("a", (1, 2), values)
    values[0] = 9.0
    assert column.values[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        column.values[0] = 9.0


COLUMN = Scores("a", (1, 2), np.zeros(2))
TABLE = np.zeros((3, 8))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_differences(COLUMN, Scores("b", (1, 3), np.zeros(2))),
         r"seeds \[2, 3\] are in only one of a and b"),
        (lambda: paired_differences(COLUMN, Scores("b", (1, 2), np.zeros((2, 3)))), "same strata"),
        (lambda: difference_interval([1.0]), r"shaped \(1,\): expected at least 2"),
        (lambda: sign_flip_p([1.0]), r"shaped \(1,\): expected at least 2"),
        (lambda: difference_interval([1.0, np.nan]), "finite numbers; leave broken seeds out"),
        (lambda: sign_flip_p([1.0, np.nan]), "finite numbers; leave broken seeds out"),
        (lambda: difference_interval(TABLE), r"shaped \(3, 8\): expected one row"),
        (lambda: probability_of_improvement(TABLE, higher_is_better=True),
         r"shaped \(3, 8\): expected one row"),
        (lambda: holm([0.5, 1.5]), "probabilities in"),
    ],
)  # fmt: skip
def test_columns_differences_and_settings_that_make_no_sense_are_refused(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call()
