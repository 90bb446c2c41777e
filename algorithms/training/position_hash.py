"""One number for a position, so that positions that come back can be counted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.movegen import IDENTITY_BITS, STATE, Positions

# splitmix64's constants (Steele, Lea and Flood 2014): an increment and two odd multipliers.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def position_hashes(positions: Positions) -> NDArray[np.int64]:
    """int64 `[N]` of board, side to move, castling rights and en passant; clocks are left out.

    Equal positions have equal hashes in every process and version; different ones share a hash with
    probability 2**-64.

    Args:
        positions: uint64 `[N, 8]`, packed (`chess_env.movegen`).
    """
    words = positions.copy()
    words[:, STATE] &= IDENTITY_BITS
    mixed = np.zeros(len(words), np.uint64)
    for column in range(words.shape[1]):
        mixed = (mixed ^ words[:, column]) + _STEP
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        mixed ^= mixed >> np.uint64(31)
    return mixed.view(np.int64)
