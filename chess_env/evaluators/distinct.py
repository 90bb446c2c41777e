"""Which rows of an array of positions are the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import kernel

_MIX, _HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


@kernel
def _number_rows(
    rows: NDArray[np.uint64],
    table: NDArray[np.intp],
    first: NDArray[np.intp],
    number: NDArray[np.intp],
) -> int:
    """How many distinct rows there are; fills `first` and `number` by open addressing in a table of -1."""
    last, found = np.uint64(len(table) - 1), 0
    for row in range(len(rows)):
        mixed = np.uint64(0)
        for word in range(rows.shape[1]):
            mixed = (mixed ^ rows[row, word]) * _MIX
            mixed ^= mixed >> _HIGH
        place = mixed & last
        while True:
            seen = table[place]
            if seen < 0:
                table[place], first[found], number[row] = found, row, found
                found += 1
                break
            same = True
            for word in range(rows.shape[1]):
                same &= rows[first[seen], word] == rows[row, word]
            if same:
                number[row] = seen
                break
            place = (place + np.uint64(1)) & last
    return found


def distinct(packed: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(`[D]` first row of each distinct position in order of appearance, `[N]` index into these of every row).

    Args:
        packed: uint64 `[N, 8]` positions.
    """
    count = len(packed)
    table = np.full(1 << (2 * count + 1).bit_length(), -1, np.intp)
    first, number = np.empty(count, np.intp), np.empty(count, np.intp)
    found = _number_rows(np.ascontiguousarray(packed), table, first, number)
    return first[:found], number
