"""Distinct rows are found in order of appearance, whatever the rows are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chess_env.rules.rules import distinct

words = st.sampled_from([0, 1, 2**32, 2**63, 2**64 - 1])


@given(st.lists(st.lists(words, min_size=8, max_size=8), max_size=60))
def test_distinct_rows_are_those_of_a_dict(rows: list[list[int]]) -> None:
    packed = np.array(rows, np.uint64).reshape(-1, 8)
    seen: dict[tuple[int, ...], int] = {}
    expected = [seen.setdefault(tuple(row), len(seen)) for row in rows]
    first, number = distinct(packed)
    assert number.tolist() == expected
    assert first.tolist() == [expected.index(each) for each in range(len(seen))]


@pytest.mark.parametrize("copies", [1, 3])
def test_thousands_of_positions_keep_their_order(
    positions: NDArray[np.uint64], copies: int
) -> None:
    rng = np.random.default_rng(5)
    many = np.concatenate([positions + np.uint64(k << 12) for k in range(40)])
    order = rng.permutation(np.repeat(np.arange(len(many)), copies))
    first, number = distinct(many[order])
    assert len(first) == len(many)
    assert (np.diff(first) > 0).all()
    assert (many[order][first][number] == many[order]).all()
