"""A reading is one number off a record: which rows count, and what is NaN."""

from __future__ import annotations

import math

import pytest

from algorithms.reports.run_files import READINGS, read, series

ROWS = [
    {"step": 0, "eval/entropy": 3.0},
    *({"step": i, "reg/kl_old": float(i)} for i in range(1, 9)),
    {"step": 9, "eval/entropy": 1.0, "reg/kl_old": 9.0},
]


@pytest.mark.parametrize(
    ("reading", "value"),
    [
        ("first reg/kl_old", 1.0),
        ("last reg/kl_old", 9.0),
        ("early reg/kl_old", 1.5),  # 9 values: a quarter is 2
        ("late reg/kl_old", 8.5),
        ("mean reg/kl_old", 5.0),
        ("median reg/kl_old", 5.0),
        ("min reg/kl_old", 1.0),
        ("max reg/kl_old", 9.0),
        ("gain reg/kl_old", 8.0),
        ("gain eval/entropy", -2.0),  # rows without it are passed over
        ("early eval/entropy", 3.0),  # of fewer than 4 values a quarter is one
        ("late eval/entropy", 1.0),
    ],
)
def test_a_reading_is_the_number_computed_by_hand(reading: str, value: float) -> None:
    assert read(ROWS, reading) == value


@pytest.mark.parametrize("how", list(READINGS))
def test_what_no_row_has_is_nan_and_nothing_finite_is_nothing(how: str) -> None:
    assert math.isnan(read(ROWS, f"{how} no/such"))
    assert math.isnan(read([], f"{how} eval/entropy"))
    rows = [{"a": None}, {"a": math.nan}, {"a": math.inf}]
    assert math.isnan(read(rows, f"{how} a"))


def test_one_value_is_all_readings_but_the_gain() -> None:
    for how in READINGS:
        assert read([{"a": 2}], f"{how} a") == (0.0 if how == "gain" else 2.0)


def test_a_series_keeps_the_order_and_only_finite_values() -> None:
    rows = [{"a": 3.0}, {"a": None}, {}, {"a": math.inf}, {"a": 1}, {"b": 5.0}]
    assert series(rows, "a") == [3.0, 1.0]


@pytest.mark.parametrize("reading", ["", "last", "last ", "newest eval/entropy", "eval/entropy"])
def test_an_unknown_reading_is_refused_with_the_known_ones(reading: str) -> None:
    with pytest.raises(ValueError, match='expected "HOW METRIC" with HOW one of first, last') as e:
        read(ROWS, reading)
    assert repr(reading) in str(e.value)
