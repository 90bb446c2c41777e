"""The facts `structure` of a position, compiled: pawns, the squares that the men control, and what covers the king."""

from __future__ import annotations

import numpy as np

from chess_env.jit import inlined
from chess_env.move_facts.kernel import Attacks, Facts
from chess_env.move_facts.table import FURTHER_INDEX as X
from chess_env.move_facts.table import MOST_SQUARES
from chess_env.rules.bitboards import (
    KING,
    U0,
    U1,
    U8,
    beside,
    fill_down,
    fill_up,
    lowest_square,
    popcount,
    square_bit,
)
from chess_env.rules.packed import (
    BISHOPS,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    ROOKS,
    Positions,
    occupied_squares,
)

_CENTRE = np.uint64(0x0000001818000000)
_RANKS_2_TO_4 = np.uint64(0x00000000FFFFFF00)


@inlined
def _distance(one: int, other: int) -> int:
    """int64: moves of a king between two squares of an empty board."""
    return max(abs((one >> 3) - (other >> 3)), abs((one & 7) - (other & 7)))


@inlined
def write_side(position: Positions, attacks: Attacks, others: Attacks, out: Facts) -> None:
    """Writes the group `structure` of the side to move, whose pawns move up.

    Args:
        position: packed.
        attacks: of the side to move.
        others: of the other side.
        out: where its columns begin; 0 stands there.
    """
    own, occupied = position[OWN], occupied_squares(position)
    pawns, their_pawns = position[PAWNS] & own, position[PAWNS] & ~own
    king = lowest_square(position[KINGS] & own)
    their_king = lowest_square(position[KINGS] & ~own)
    before = fill_down(pawns) >> U8
    doubled = pawns & before
    out[X.mover_isolated_pawns] = popcount(pawns & ~beside(fill_up(fill_down(pawns))))
    out[X.mover_doubled_pawns] = popcount(doubled)
    out[X.mover_backward_pawns] = popcount(pawns & ~fill_up(beside(pawns)) & (others.pawn >> U8))
    out[X.mover_connected_pawns] = popcount(pawns & (attacks.pawn | beside(pawns)))
    passed = pawns & ~doubled & ~(fill_down(their_pawns | beside(their_pawns)) >> U8)
    out[X.mover_passed_pawns] = popcount(passed)
    out[X.mover_passed_pawns_blocked] = popcount(passed << U8 & occupied)
    while passed & (passed - U1):
        passed &= passed - U1
    if passed:  # the furthest one
        square = lowest_square(passed)
        out[X.mover_passed_rank] = square >> 3
        out[X.mover_passed_own_king] = _distance(square + 8, king)
        out[X.mover_passed_their_king] = _distance(square + 8, their_king)

    outposts = (position[KNIGHTS] | position[BISHOPS]) & own & attacks.pawn
    outposts &= ~(fill_down(beside(their_pawns)) >> U8)
    rooks = position[ROOKS] & own & ~fill_up(fill_down(pawns))
    half_open = rooks & fill_up(fill_down(their_pawns))
    bishops = position[BISHOPS] & own
    out[X.mover_bishops_at_least_2] = bishops & (bishops - U1) != U0
    for number in range(1, 3):
        out[X.mover_outposts_at_least_1 + number - 1] = popcount(outposts) >= number
        out[X.mover_open_rooks_at_least_1 + number - 1] = popcount(rooks & ~half_open) >= number
        out[X.mover_half_open_rooks_at_least_1 + number - 1] = popcount(half_open) >= number
    free, ring = ~own & ~others.pawn, KING[their_king]
    for number, seen in enumerate((attacks.knight, attacks.bishop, attacks.rook, attacks.queen)):
        out[X.mover_knight_squares + number] = min(MOST_SQUARES, popcount(seen & free))
        out[X.mover_knights_near_king + number] = popcount(seen & ring)

    file = fill_up(fill_down(square_bit(king)))
    out[X.mover_king_shield] = popcount((file | beside(file)) & pawns & _RANKS_2_TO_4)
    out[X.mover_king_file_open] = file & pawns == U0
    out[X.mover_centre_pawns] = popcount(pawns & _CENTRE)
    out[X.mover_centre_squares] = popcount(attacks.all & _CENTRE)
