from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from algorithms.reports.page.claims import Matrix, make_matrix
from algorithms.reports.pairwise import compare
from algorithms.reports.statistics import Scores

NOISE = (0.3, -0.2, 0.1, -0.4, 0.2, -0.1, 0.4, -0.3)


def quantity(seeds: int = 8, lower: bool = True, **means: float) -> dict[str, Any]:
    """A quantity as comparison.json has it: each column has its mean, plus noise where that is not 0."""
    columns = []
    for at, (name, mean) in enumerate(means.items()):
        noise = np.roll(NOISE, at)[:seeds] if mean else np.zeros(seeds)
        columns.append(Scores(name, tuple(range(seeds)), mean + noise))
    found = compare(columns, higher_is_better=not lower)
    return {
        "quantity": "regret",
        "higher_is_better": not lower,
        "comparisons": [dataclasses.asdict(each) for each in found],
    }


def verdict(matrix: Matrix | None, row: int = 0, column: int = 0) -> tuple[str, bool]:
    assert matrix is not None
    cell = matrix.rows[row][1][column]
    assert cell is not None
    return cell.verdict, cell.claimed


def test_each_pair_stands_once_above_the_diagonal_row_minus_column() -> None:
    matrix = make_matrix(quantity(a=10.0, b=20.0, c=20.0, d=5.0), {"b": "beta"})
    assert matrix is not None
    assert list(matrix.header) == ["beta", "c", "d"]
    assert [name for name, _ in matrix.rows] == ["a", "beta", "c"]
    there = [[cell is not None for cell in cells] for _, cells in matrix.rows]
    assert there == [[True, True, True], [False, True, True], [False, False, True]]
    first, last = matrix.rows[0][1][0], matrix.rows[0][1][2]
    assert first is not None and last is not None
    assert (first.difference[0], first.verdict, first.claimed) == ("−", "lower", True)
    assert first.interval.startswith("−10") and " to −" in first.interval
    assert (last.difference[0], last.verdict, last.claimed) == ("+", "higher", True)
    assert len(matrix.pairs_of("beta")) == 3
    assert matrix.counted == "5 of 6 differences may be claimed"
    assert not matrix.with_levels


def test_a_claim_that_is_not_made_has_its_reason() -> None:
    few = make_matrix(quantity(seeds=3, a=10.0, b=20.0), {})
    assert verdict(few) == ("too few seeds: 3\u00a0of\u00a06", False)
    chance = make_matrix(quantity(a=20.0, b=20.0), {})
    assert verdict(chance) == ("interval includes 0", False)
    same = make_matrix(quantity(a=0.0, b=0.0), {})
    assert verdict(same) == ("identical", False)
    clear = quantity(a=10.0, b=20.0)
    assert verdict(make_matrix(clear, {}, lambda ours, theirs: "budget")) == (
        "not comparable: other budget", False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("p_value", "p_adjusted", "reason"),
    [(0.04, 0.24, "p 0.24 after Holm’s correction"), (0.06, 0.36, "p 0.06")],
)
def test_a_p_value_is_the_reason_where_the_interval_leaves_zero_out(
    p_value: float, p_adjusted: float, reason: str
) -> None:
    values = quantity(a=10.0, b=20.0)
    values["comparisons"][0] |= {"p_value": p_value, "p_adjusted": p_adjusted}
    assert verdict(make_matrix(values, {})) == (reason, False)


def test_a_pair_without_a_common_level_keeps_its_place_and_levels_leave_the_names() -> None:
    values = quantity(lower=False, **{
        "a (at 50 % of the starting regret)": 1.0, "b (at 50 % of the starting regret)": 2.0,
    })  # fmt: skip
    values["level_percent"] = {"a | b": 50, "a | c": None, "b | c": None}
    matrix = make_matrix(values, {})
    assert matrix is not None and matrix.with_levels
    assert (list(matrix.header), [name for name, _ in matrix.rows]) == (["b", "c"], ["a", "b"])
    assert matrix.rows[0][1][0].level == "at 50 %"
    assert verdict(matrix, 1, 1) == ("no common level of regret", False)


def test_without_a_pair_there_is_no_matrix() -> None:
    assert make_matrix({"quantity": "x", "higher_is_better": True, "comparisons": []}, {}) is None
