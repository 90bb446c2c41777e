"""Exact values of king and queen, rook or pawn against king: won or drawn, and how many moves the mate takes.

The tables are made by retrograde analysis (https://www.chessprogramming.org/Retrograde_Analysis). That takes a third
of a second, so they are made when the first such position is scored, and are kept in memory and in no file. Distances
are in moves of the stronger side. The fifty-move rule is not looked at: no such mate takes more than 28 moves.

A table is uint8 [2, 64, 64, 64]: the side to move (0 the stronger), the stronger king's square, the third man's, the
weaker king's, all as the stronger side sees the board. An entry is 0 where the game is drawn, 255 where there is no
such position, and otherwise 1 + n: mate in n moves.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import announced, inlined, kernel
from chess_env.rules.bitboards import (
    KING,
    PAWN_UP,
    U1,
    bishop_attacks,
    flip_vertical,
    lowest_square,
    popcount,
    rook_attacks,
    square_bit,
)
from chess_env.rules.packed import (
    KINGS,
    OWN,
    PAWNS,
    QUEENS,
    RIGHTS_MASK,
    ROOKS,
    STATE,
    occupied_squares,
)

Tables = NDArray[np.uint8]

QUEEN, ROOK, PAWN = range(3)
STRONGER, WEAKER = 0, 1
DRAWN, NO_POSITION = 0, 255
LONGEST = 28
"""Moves of the longest mate, with a pawn; with a rook it takes 16, with a queen 10."""

_MATE_SCORE = 10_000
_SHAPE = (3, 2, 64, 64, 64)


@inlined
def _attacks(man: int, square: int, occupied: np.uint64) -> np.uint64:
    """uint64: what the third man attacks; squares of its own king among them."""
    if man == PAWN:
        return PAWN_UP[square]
    straight = rook_attacks(square, occupied)
    return straight | bishop_attacks(square, occupied) if man == QUEEN else straight


@kernel
def _best_for_stronger(tables: Tables, man: int, king: int, third: int, weak: int) -> int:
    """The least 1 + n among the weaker side's positions after a move, 0 where none is lost for it."""
    best = 0
    occupied = square_bit(king) | square_bit(third) | square_bit(weak)
    moves = KING[king] & ~square_bit(third) & ~KING[weak]
    while moves:
        to = lowest_square(moves)
        moves &= moves - U1
        after = tables[man, WEAKER, to, third, weak]
        if after != DRAWN and after != NO_POSITION and (best == 0 or after < best):
            best = int(after)
    if man == PAWN:
        to = third + 8
        if occupied & square_bit(to):
            return best
        if to >= 56:
            for promoted in (QUEEN, ROOK):
                after = tables[promoted, WEAKER, king, to, weak]
                if after != DRAWN and after != NO_POSITION and (best == 0 or after < best):
                    best = int(after)
            return best
        moves = square_bit(to)
        if third < 16 and not occupied & square_bit(to + 8):
            moves |= square_bit(to + 8)
    else:
        moves = _attacks(man, third, occupied) & ~occupied
    while moves:
        to = lowest_square(moves)
        moves &= moves - U1
        after = tables[man, WEAKER, king, to, weak]
        if after != DRAWN and after != NO_POSITION and (best == 0 or after < best):
            best = int(after)
    return best


@kernel
def _worst_for_weaker(tables: Tables, man: int, king: int, third: int, weak: int) -> int:
    """The greatest 1 + n among the stronger side's positions after a move; 0 where one is not lost, 1 for mate."""
    alone = square_bit(king)
    guarded = KING[king]
    attacked = (
        _attacks(man, third, alone) | guarded
    )  # the king that flees along a line is still on it
    worst = 0
    moves = KING[weak] & ~(attacked & ~square_bit(third))
    any_move = False
    while moves:
        to = lowest_square(moves)
        moves &= moves - U1
        if to == third:
            if guarded & square_bit(third):
                continue
            return DRAWN
        any_move = True
        before = tables[man, STRONGER, king, third, to]
        if before == DRAWN:
            return DRAWN
        worst = max(worst, int(before))
    if any_move:
        return worst
    occupied = alone | square_bit(weak)
    return 1 if _attacks(man, third, occupied) & square_bit(weak) else DRAWN


@kernel
def _solve(tables: Tables, man: int) -> None:
    """Fills one man's table; those of what a pawn becomes are full already."""
    for king in range(64):
        for third in range(64):
            misplaced = third == king or (man == PAWN and (third < 8 or third >= 56))
            for weak in range(64):
                if misplaced or weak in (king, third) or KING[king] & square_bit(weak):
                    tables[man, :, king, third, weak] = NO_POSITION
                    continue
                occupied = square_bit(king) | square_bit(weak)
                if _attacks(man, third, occupied) & square_bit(weak):
                    tables[man, STRONGER, king, third, weak] = NO_POSITION
    # A mate in n of the stronger side follows from mates in n - 1 of the weaker, which are all known by then.
    for n in range(LONGEST + 1):
        for place in range(64**3):
            king, third, weak = place >> 12, place >> 6 & 63, place & 63
            if (
                n
                and tables[man, STRONGER, king, third, weak] == DRAWN
                and _best_for_stronger(tables, man, king, third, weak) == n
            ):
                tables[man, STRONGER, king, third, weak] = n + 1
        for place in range(64**3):
            king, third, weak = place >> 12, place >> 6 & 63, place & 63
            if (
                tables[man, WEAKER, king, third, weak] == DRAWN
                and _worst_for_weaker(tables, man, king, third, weak) == n + 1
            ):
                tables[man, WEAKER, king, third, weak] = n + 1


@functools.cache
def tables() -> Tables:
    """uint8 [3, 2, 64, 64, 64]: the tables of queen, rook and pawn, computed once in a process."""
    made: Tables = np.zeros(_SHAPE, np.uint8)
    with announced("the tables of three men", _solve):
        for man in (QUEEN, ROOK, PAWN):
            _solve(made, man)
    return made


@kernel
def find_three_men(positions: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """bool [N]: where the tables have the position: two kings, a queen, rook or pawn, and no right to castle.

    Args:
        positions: uint64 [N, 8], packed.
    """
    found = np.zeros(len(positions), np.bool_)
    for i in range(len(positions)):
        position = positions[i]
        if popcount(occupied_squares(position)) == 3 and not position[STATE] & RIGHTS_MASK:
            found[i] = popcount(position[PAWNS] | position[ROOKS] | position[QUEENS]) == 1
    return found


@kernel
def _look_up(positions: NDArray[np.uint64], made: Tables, scores: NDArray[np.int32]) -> None:
    for i in range(len(positions)):
        position = positions[i]
        third = position[PAWNS] | position[ROOKS] | position[QUEENS]
        man = QUEEN if position[QUEENS] else ROOK if position[ROOKS] else PAWN
        side = STRONGER if third & position[OWN] else WEAKER
        strong = position[OWN] if side == STRONGER else ~position[OWN]
        king, weak = position[KINGS] & strong, position[KINGS] & ~strong
        if side == WEAKER:
            king, third, weak = flip_vertical(king), flip_vertical(third), flip_vertical(weak)
        entry = made[man, side, lowest_square(king), lowest_square(third), lowest_square(weak)]
        if entry == DRAWN:
            scores[i] = 0
        else:
            mate = _MATE_SCORE - (np.int32(entry) - 1)
            scores[i] = mate if side == STRONGER else -mate


def exact_scores(positions: NDArray[np.uint64]) -> NDArray[np.int32]:
    """int32 [N]: centipawns of the side to move, +-(10000 - n) for mate in n moves and 0 for a draw.

    Args:
        positions: uint64 [N, 8], packed, all of which `find_three_men` finds.
    """
    scores = np.empty(len(positions), np.int32)
    _look_up(positions, tables(), scores)
    return scores
