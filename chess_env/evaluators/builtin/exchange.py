"""Static exchange evaluation, compiled: whether a capture loses material on its square."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from chess_env.jit import inlined, kernel
from chess_env.rules.bitboards import (
    KING,
    KNIGHT,
    U0,
    U1,
    bishop_attacks,
    pawn_attacks_down,
    pawn_attacks_up,
    rook_attacks,
    square_bit,
)
from chess_env.rules.packed import (
    BISHOPS,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    occupied_squares,
)

# A packed position as a tuple of eight uint64 (`static_evaluation.py`).
Board: TypeAlias = Any

# Exchange values by kind (pawn .. king) and 0 for an empty square.
VALUE = np.array([100, 320, 330, 500, 950, 20_000, 0], np.int64)


@inlined
def kind_at(board: Board, bit: np.uint64) -> int:
    """int64: kind of the man on a square, 0 pawn .. 5 king; 6 when it is empty."""
    if board[PAWNS] & bit:
        return 0
    if board[KNIGHTS] & bit:
        return 1
    if board[BISHOPS] & bit:
        return 2
    if board[ROOKS] & bit:
        return 3
    if board[QUEENS] & bit:
        return 4
    return 5 if board[KINGS] & bit else 6


@inlined
def _attackers(board: Board, square: int, occupied: np.uint64) -> np.uint64:
    """uint64: men of both sides that see `square` through `occupied`."""
    bit = square_bit(square)
    own = board[OWN]
    pawns = board[PAWNS]
    queens = board[QUEENS]
    found = pawn_attacks_down(bit) & pawns & own | pawn_attacks_up(bit) & pawns & ~own
    found |= KNIGHT[square] & board[KNIGHTS] | KING[square] & board[KINGS]
    found |= bishop_attacks(square, occupied) & (board[BISHOPS] | queens)
    return found | rook_attacks(square, occupied) & (board[ROOKS] | queens)


@kernel
def exchange_is_good(board: Board, start: int, end: int) -> bool:
    """Whether the exchange that the mover begins with start-end loses no material (pins are not looked at).

    The swap algorithm of https://www.chessprogramming.org/SEE_-_The_Swap_Algorithm with a threshold of 0.
    """
    moved, target = square_bit(start), square_bit(end)
    swap = VALUE[kind_at(board, target)]
    swap = VALUE[kind_at(board, moved)] - swap
    if swap <= 0:
        return True
    occupied = occupied_squares(board) & ~moved | target
    diagonal = board[BISHOPS] | board[QUEENS]
    straight = board[ROOKS] | board[QUEENS]
    attackers = _attackers(board, end, occupied)
    own = board[OWN]
    side = own
    good = True
    while True:
        side = ~side
        attackers &= occupied
        mine = attackers & side
        if mine == U0:
            break
        good = not good
        kind = 0
        bits = mine & board[PAWNS]
        while not bits and kind < 4:
            kind += 1
            bits = mine & board[kind]
        if not bits:
            # The king may recapture only what is no longer defended.
            return good if attackers & ~side == U0 else not good
        swap = VALUE[kind] - swap
        if swap < (1 if good else 0):
            break
        occupied ^= bits & (~bits + U1)
        if kind == 0 or kind == 2 or kind == 4:
            attackers |= bishop_attacks(end, occupied) & diagonal
        if kind == 3 or kind == 4:
            attackers |= rook_attacks(end, occupied) & straight
    return good
