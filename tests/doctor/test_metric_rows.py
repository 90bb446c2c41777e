"""How a record is read: its updates, its gaps, and the stretches in which something holds."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.doctor.metric_rows import Episode, MetricRows
from tests.doctor.rows import record


def episode(pattern: str) -> Episode | None:
    """The longest stretch of x in a pattern of x and dots, one for each update."""
    points = [(update, float(sign == "x")) for update, sign in enumerate(pattern, start=1)]
    return MetricRows([]).episode(points, lambda value: value > 0)


@pytest.mark.parametrize(
    ("pattern", "since", "until", "held"),
    [
        ("xxxx", 1, 4, 4),
        ("....xxxx", 5, 8, 4),
        ("xxxx....", 1, 4, 4),
        ("xxxx.xxxx", 1, 9, 8),  # one of nine is missing
        ("xxxx..xxxx", 1, 10, 8),  # two of ten
        ("xxxx...xxxx", 1, 4, 4),  # three of eleven are too many; of equals the first
        ("xx.xxxxxx", 1, 9, 8),
        ("x......xxxxx", 8, 12, 5),
        ("x.xxxxx.", 1, 7, 6),
    ],
)
def test_a_stretch_holds_for_eight_of_ten_values_and_begins_and_ends_with_one_that_does(
    pattern: str, since: int, until: int, held: int
) -> None:
    found = episode(pattern)
    assert found is not None
    assert (found.since, found.until, len(found.values)) == (since, until, held)


@pytest.mark.parametrize("pattern", ["", ".", "xxx", "x.x.x.x.x", "." * 36 + "xxxx"])
def test_fewer_than_four_or_than_an_eighth_of_all_are_no_stretch(pattern: str) -> None:
    assert episode(pattern) is None


def longest(held: list[bool]) -> int:
    """Length of the longest stretch, by trying all."""
    return max(
        (
            b - a + 1
            for a, b in itertools.combinations_with_replacement(range(len(held)), 2)
            if held[a] and held[b] and 5 * sum(held[a : b + 1]) >= 4 * (b - a + 1)
        ),
        default=0,
    )


@given(st.lists(st.booleans(), max_size=24))
def test_no_stretch_is_longer_than_the_one_that_is_found(held: list[bool]) -> None:
    found = episode("".join(".x"[each] for each in held))
    if found is not None:
        assert found.until - found.since + 1 == longest(held)


def test_an_episode_says_from_when_on_it_holds() -> None:
    found = Episode([(5, 1.0), (6, 3.0), (7, 2.0)])
    assert (found.since, found.until, found.median) == (5, 7, 2.0)


def test_updates_have_their_numbers_and_evaluations_alone_are_none() -> None:
    read = MetricRows(record()[3:])
    assert (read.updates, read.first_update, read.last_update) == (14, 3, 16)
    assert not read.has_its_beginning and not read.is_whole
    assert read.begins(3) == "from the first update on" and read.begins(5) == "from update 5 on"
    assert MetricRows(record()).is_whole and MetricRows(record()).has_its_beginning
    start = MetricRows(record()[:1])
    assert (start.updates, start.first_update, start.last_update) == (0, 0, 0)


def test_a_record_with_a_gap_or_without_numbers_is_not_whole() -> None:
    assert not MetricRows([row for row in record() if row["step"] != 7]).is_whole
    assert not MetricRows(record()[:2] + record()[5::4]).is_whole
    rows = record()
    del rows[4]["step"]
    assert not MetricRows(rows).is_whole


def test_values_that_are_no_numbers_are_left_out() -> None:
    odd = [1.0, None, math.nan, math.inf, 3]
    read = MetricRows([{"step": i + 1, "policy/x": value} for i, value in enumerate(odd)])
    assert read.series("policy/x") == [1.0, 3.0] and read.points("policy/x") == [(1, 1.0), (5, 3.0)]
    assert (read.first("policy/x"), read.last("policy/x"), read.median("policy/x")) == (
        1.0,
        3.0,
        2.0,
    )
    assert math.isnan(read.mean("policy/y")) and math.isnan(read.first("policy/y"))


def test_metrics_of_an_update_must_stand_in_one_row_and_those_of_evaluations_anywhere() -> None:
    apart = MetricRows([{"step": 1, "policy/a": 1.0, "eval/x": 1.0}, {"step": 2, "policy/b": 1.0}])
    assert apart.has("policy/a") and apart.has("policy/b") and not apart.has("policy/a", "policy/b")
    assert apart.has("policy/b", "eval/x") and not apart.has("policy/a", "eval/y")
    assert apart.together("policy/a", "policy/b") == [] and apart.has()


def test_a_metric_that_more_than_an_eighth_of_the_updates_lack_is_there_in_part() -> None:
    rows = [{"step": i, "policy/a": 1.0, "reg/b": 1.0 if i > 2 else None} for i in range(1, 17)]
    assert MetricRows(rows).in_part("policy/a", "reg/b") == ()
    rows[5]["reg/b"] = None
    assert MetricRows(rows).in_part("policy/a", "reg/b", "eval/never") == ("reg/b",)


def test_last_and_quarter_are_means_of_the_end() -> None:
    read = MetricRows([{"step": i, "policy/x": float(-i)} for i in range(1, 9)])
    assert read.last("policy/x") == -8.0 and read.last("policy/x", 0.25) == -7.5
    assert read.quarter("policy/x") == 7.5 and read.first("policy/x", 2) == -1.5
