"""Ids of moves written without a branch for each man, against a loop over men and targets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chess_env.jit import kernel
from chess_env.moves import FROM_TO_ACTION
from chess_env.rules.movegen import write_actions


@kernel
def listed(men: np.uint64, targets: NDArray[np.uint64], out: NDArray[np.int16]) -> int:
    return write_actions(men, targets, out)


def bits(squares: set[int]) -> np.uint64:
    return np.uint64(sum(1 << square for square in squares))


@given(st.dictionaries(st.integers(0, 63), st.sets(st.integers(0, 63)), max_size=64))
def test_the_ids_of_any_men_and_targets_are_those_of_a_loop(moves: dict[int, set[int]]) -> None:
    reachable = {
        start: {end for end in ends if FROM_TO_ACTION[start, end] >= 0}
        for start, ends in moves.items()
    }
    targets = np.full(64, np.uint64(2**64 - 1))  # squares without a man are not looked at
    for start, ends in reachable.items():
        targets[start] = bits(ends)
    expected = [FROM_TO_ACTION[s, e] for s in sorted(reachable) for e in sorted(reachable[s])]
    out = np.full(2000, -1, np.int16)
    count = listed(bits(set(reachable)), targets, out)
    assert out[:count].tolist() == expected
    assert (out[count:] == -1).all()


def test_no_men_and_men_without_a_move_have_no_ids() -> None:
    out = np.full(4, -1, np.int16)
    assert listed(np.uint64(0), np.zeros(64, np.uint64), out) == 0
    assert listed(bits({0, 63}), np.zeros(64, np.uint64), out) == 0
    assert (out == -1).all()
