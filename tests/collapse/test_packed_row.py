"""A packed row reads like the row it was made of."""

from __future__ import annotations

import math
import sys

import pytest

from algorithms.collapse.doctor.watch import PackedRow
from algorithms.reports.summaries import read, series


def test_a_packed_row_has_the_names_and_values_of_the_row() -> None:
    row = {"step": 3.0, "eval/entropy": 1.5, "train/value_loss": None}
    packed = PackedRow(row)
    assert dict(packed) == row and len(packed) == 3
    assert "eval/entropy" in packed and "eval/regret_cp" not in packed
    assert packed.get("eval/regret_cp") is None
    with pytest.raises(KeyError):
        packed["eval/regret_cp"]


def test_what_is_not_finite_is_null() -> None:
    packed = PackedRow({"a": math.nan, "b": math.inf, "c": 0.0})
    assert dict(packed) == {"a": None, "b": None, "c": 0.0}


def test_readings_of_packed_rows_are_those_of_the_rows() -> None:
    rows = [{"x": float(i)} if i % 3 else {"x": float(i), "y": None} for i in range(12)]
    packed = [PackedRow(row) for row in rows]
    assert series(packed, "x") == series(rows, "x")
    assert read(packed, "late x") == read(rows, "late x")


def test_a_packed_row_takes_less_than_a_fifth_of_the_memory() -> None:
    row: dict[str, float | None] = {f"metric/{i}": i / 7 for i in range(100)}
    plain = sys.getsizeof(row) + sum(map(sys.getsizeof, row.values()))
    packed = PackedRow(row)
    assert sys.getsizeof(packed) + sys.getsizeof(packed._values) < plain / 5
