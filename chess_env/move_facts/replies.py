"""How many legal moves the side to move has, counted from its attack map where nothing ties its men down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import inlined
from chess_env.move_facts.attacks import Attacks
from chess_env.rules.bitboards import (
    BETWEEN,
    KING,
    NOT_FILE_A,
    NOT_FILE_H,
    U0,
    U1,
    U2,
    U7,
    U8,
    U9,
    bishop_attacks,
    lowest_square,
    popcount,
    rook_attacks,
)
from chess_env.rules.movegen import legal_actions_of
from chess_env.rules.packed import (
    BISHOPS,
    KINGS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    STATE,
    Positions,
    en_passant_square,
    occupied_squares,
)

_RANK_3 = np.uint64(0xFF << 16)
_RANK_8 = np.uint64(0xFF << 56)
_KINGSIDE, _QUEENSIDE, _QUEENSIDE_PATH = np.uint64(0x60), np.uint64(0x0E), np.uint64(0x0C)
_THREE = 3  # a pawn that promotes has four moves to a square


@inlined
def _has_pinned_man(position: Positions, king_square: int, own: np.uint64) -> bool:
    """Whether a man of the side to move may not leave a line to its king."""
    their = occupied_squares(position) ^ own
    queens = position[QUEENS]
    snipers = bishop_attacks(king_square, their) & (position[BISHOPS] | queens)
    snipers = (snipers | rook_attacks(king_square, their) & (position[ROOKS] | queens)) & their
    while snipers:
        between = BETWEEN[king_square, lowest_square(snipers)] & own
        if between and between & (between - U1) == U0:
            return True
        snipers &= snipers - U1
    return False


@inlined
def _pawn_moves(position: Positions, own: np.uint64, occupied: np.uint64) -> int:
    """int64: moves of the side's pawns where none is pinned and none takes en passant."""
    pawns, their = position[PAWNS] & own, occupied ^ own
    one = pawns << U8 & ~occupied
    two = (one & _RANK_3) << U8 & ~occupied
    left = (pawns & NOT_FILE_A) << U7 & their
    right = (pawns & NOT_FILE_H) << U9 & their
    count = popcount(one) + popcount(two) + popcount(left) + popcount(right)
    last = popcount(one & _RANK_8) + popcount(left & _RANK_8) + popcount(right & _RANK_8)
    return count + _THREE * last


@inlined
def num_replies(
    position: Positions, ours: Attacks, theirs: Attacks, spare: NDArray[np.int16]
) -> int:
    """int64: number of legal moves of the side to move.

    Without check, pinned men and en passant, every move of a man's attack map is legal. Otherwise the moves are
    listed, into `spare` (int16 [218]).

    Args:
        position: packed.
        ours: attacks of the side to move.
        theirs: attacks of the other side.
        spare: scratch.
    """
    own = position[OWN]
    king = position[KINGS] & own
    king_square = lowest_square(king)
    tied = king & theirs.all != U0 or en_passant_square(position) != 0
    if tied or _has_pinned_man(position, king_square, own):
        return legal_actions_of(position, spare)
    occupied = occupied_squares(position)
    count = ours.moves + popcount(KING[king_square] & ~own & ~theirs.all)
    rights, guarded = position[STATE], theirs.all
    if rights & U1 and (occupied | guarded) & _KINGSIDE == U0:
        count += 1
    if rights & U2 and occupied & _QUEENSIDE == U0 and guarded & _QUEENSIDE_PATH == U0:
        count += 1
    return count + _pawn_moves(position, own, occupied)
