"""Whether packed positions from a file are safe for the kernels, which trust what they are given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import announced, inlined, kernel
from chess_env.rules.bitboards import U0, U1, lowest_square, popcount, square_bit
from chess_env.rules.movegen import (
    MAX_LEGAL,
    attackers_of,
    legal_actions_of,
    legal_en_passant_target,
)
from chess_env.rules.packed import (
    BISHOPS,
    FULLMOVE_SHIFT,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    RIGHTS_MASK,
    ROOKS,
    STATE,
    Positions,
    en_passant_square,
    occupied_squares,
)
from chess_env.rules.rules import as_batch

_BACK_RANKS = np.uint64(0xFF000000000000FF)
_UNUSED_BITS = ~np.uint64(0xFFFFFFFF07FF)
# Squares of king and rook for each castling right: mover's king side, queen side, opponent's.
_CASTLING_KINGS = np.array([1 << 4, 1 << 4, 1 << 60, 1 << 60], np.uint64)
_CASTLING_ROOKS = np.array([1 << 7, 1 << 0, 1 << 63, 1 << 56], np.uint64)
# Nine queens, and rooks, bishops, knights and a king on an empty board have 323 moves.
LEGAL_ROOM = 512
"""Room for the legal moves of any position with one king a side."""


@inlined
def _is_side(position: Positions, men: np.uint64) -> bool:
    """Whether `men` can be one player's: one king, and no more promoted men than missing pawns."""
    pawns = popcount(position[PAWNS] & men)
    promoted = max(0, popcount(position[KNIGHTS] & men) - 2)
    promoted += max(0, popcount(position[BISHOPS] & men) - 2)
    promoted += max(0, popcount(position[ROOKS] & men) - 2)
    promoted += max(0, popcount(position[QUEENS] & men) - 1)
    return popcount(position[KINGS] & men) == 1 and pawns <= 8 and promoted <= 8 - pawns


@inlined
def _has_its_en_passant(position: Positions, occupied: np.uint64, their: np.uint64) -> bool:
    """Whether the en passant square, if any, follows from a double step and has a legal capture."""
    target = en_passant_square(position)
    if target == 0:
        return True
    if target < 40 or target > 47 or occupied & (square_bit(target) | square_bit(target + 8)):
        return False
    stepped = position[PAWNS] & their & square_bit(target - 8)
    return stepped != U0 and legal_en_passant_target(position, target) == target


@kernel
def is_playable(position: Positions, room: NDArray[np.int16]) -> bool:
    """Whether one packed position is one of `playable_batch`; `room` is int16 [`LEGAL_ROOM`], written over."""
    own, occupied, men = position[OWN], occupied_squares(position), 0
    for kind in range(6):
        men += popcount(position[kind])
    their = occupied & ~own
    if men != popcount(occupied) or own & ~occupied or position[PAWNS] & _BACK_RANKS:
        return False
    if not (_is_side(position, own) and _is_side(position, their)):
        return False
    if position[STATE] & _UNUSED_BITS or position[STATE] >> FULLMOVE_SHIFT == U0:
        return False
    for right in range(4):
        side = own if right < 2 else their
        king = position[KINGS] & side & _CASTLING_KINGS[right]
        rook = position[ROOKS] & side & _CASTLING_ROOKS[right]
        if position[STATE] & RIGHTS_MASK & (U1 << np.uint64(right)) and not (king and rook):
            return False
    target = lowest_square(position[KINGS] & their)
    if attackers_of(position, target, occupied) & own:
        return False
    return (
        _has_its_en_passant(position, occupied, their)
        and legal_actions_of(position, room) <= MAX_LEGAL
    )


@kernel
def _playable_batch(positions: Positions, out: NDArray[np.bool_]) -> None:
    room = np.empty(LEGAL_ROOM, np.int16)
    for i in range(positions.shape[0]):
        out[i] = is_playable(positions[i], room)


def playable_batch(positions: Positions) -> NDArray[np.bool_]:
    """bool [N]: whether each packed position is one that `parse_fen` could have made, or a game from there.

    Two of the checks of a FEN are left out, because no kernel depends on them: that at most two men
    give check, and that a last move can have given it.

    Raises:
        ValueError: not of dtype uint64 and shape [N, 8].
    """
    positions = as_batch(positions)
    out = np.empty(len(positions), np.bool_)
    with announced("the check of positions", _playable_batch):
        _playable_batch(positions, out)
    return out
