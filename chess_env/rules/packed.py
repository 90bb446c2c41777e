"""The packed position: how a board lies in eight words, and how it is read.

A packed position is uint64 [8], always from the mover's side (Black to move: ranks reversed):

    [0..5]  pawns, knights, bishops, rooks, queens, kings of both sides
    [6]     all men of the side to move
    [7]     state: bits 0-3 castling rights (mover K, mover Q, opponent K, opponent Q),
            bits 4-9 en passant target square (0 = none; set only when a capture there is legal),
            bit 10 set when Black is to move, bits 16-31 rule-50 clock in half-moves,
            bits 32-47 full-move number
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import inlined

Positions = NDArray[np.uint64]

PAWNS, KNIGHTS, BISHOPS, ROOKS, QUEENS, KINGS, OWN, STATE = range(8)

EP_SHIFT = np.uint64(4)
EP_MASK = np.uint64(63)
BLACK_BIT = np.uint64(1 << 10)
CLOCK_SHIFT = np.uint64(16)
FULLMOVE_SHIFT = np.uint64(32)
WORD_MASK = np.uint64(0xFFFF)
IDENTITY_BITS = np.uint64(0x7FF)  # castling, en passant and turn: what makes two positions the same
RIGHTS_MASK = np.uint64(15)


@inlined
def occupied_squares(position: Positions) -> np.uint64:
    """uint64: all men of both sides."""
    return position[0] | position[1] | position[2] | position[3] | position[4] | position[5]


@inlined
def en_passant_square(position: Positions) -> np.int64:
    """int64: the en passant target square in the mover's view; 0 when no such capture is legal."""
    return np.int64((position[STATE] >> EP_SHIFT) & EP_MASK)


@inlined
def rule50_clock(position: Positions) -> np.int64:
    """int64: half-moves since the last capture or pawn move."""
    return np.int64((position[STATE] >> CLOCK_SHIFT) & WORD_MASK)
