"""What each side attacks, kind by kind, compiled: the maps that the facts of a move are read from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chess_env.jit import inlined
from chess_env.rules.bitboards import (
    KING,
    KNIGHT,
    NOT_FILE_A,
    NOT_FILE_H,
    U0,
    U1,
    U7,
    U9,
    bishop_attacks,
    lowest_square,
    popcount,
    rook_attacks,
)
from chess_env.rules.packed import BISHOPS, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, Positions


class Attacks(NamedTuple):
    """Squares, uint64 each, that the men of one side attack, its own men's squares included.

    Attributes:
        pawn, knight, bishop, rook, queen, king: by men of that kind.
        all: by any man.
        twice: by two or more men.
        moves: int64, squares that the knights, bishops, rooks and queens can go to, pins aside.
    """

    pawn: np.uint64
    knight: np.uint64
    bishop: np.uint64
    rook: np.uint64
    queen: np.uint64
    king: np.uint64
    all: np.uint64
    twice: np.uint64
    moves: int


@inlined
def attacks_of(position: Positions, men: np.uint64, occupied: np.uint64, upward: bool) -> Attacks:
    """The squares that `men`, of one side, attack through `occupied`; `upward` is the way of its pawns."""
    pawns = position[PAWNS] & men
    if upward:
        one, other = (pawns & NOT_FILE_A) << U7, (pawns & NOT_FILE_H) << U9
    else:
        one, other = (pawns & NOT_FILE_H) >> U7, (pawns & NOT_FILE_A) >> U9
    pawn = one | other
    total, twice = pawn, one & other
    knight, bishop, rook, queen = U0, U0, U0, U0
    moves = 0
    left = position[KNIGHTS] & men
    while left:
        found = KNIGHT[lowest_square(left)]
        knight |= found
        twice |= total & found
        total |= found
        moves += popcount(found & ~men)
        left &= left - U1
    left = position[BISHOPS] & men
    while left:
        found = bishop_attacks(lowest_square(left), occupied)
        bishop |= found
        twice |= total & found
        total |= found
        moves += popcount(found & ~men)
        left &= left - U1
    left = position[ROOKS] & men
    while left:
        found = rook_attacks(lowest_square(left), occupied)
        rook |= found
        twice |= total & found
        total |= found
        moves += popcount(found & ~men)
        left &= left - U1
    left = position[QUEENS] & men
    while left:
        square = lowest_square(left)
        found = bishop_attacks(square, occupied) | rook_attacks(square, occupied)
        queen |= found
        twice |= total & found
        total |= found
        moves += popcount(found & ~men)
        left &= left - U1
    king = KING[lowest_square(position[KINGS] & men)]
    twice |= total & king
    total |= king
    return Attacks(pawn, knight, bishop, rook, queen, king, total, twice, moves)


@inlined
def least_attacker(attacks: Attacks, square: np.uint64) -> int:
    """int64: the least kind (0 pawn .. 5 king) that attacks the square (a bitboard); 6 where none does."""
    if attacks.all & square == U0:
        return 6
    if attacks.pawn & square:
        return 0
    if attacks.knight & square:
        return 1
    if attacks.bishop & square:
        return 2
    if attacks.rook & square:
        return 3
    if attacks.queen & square:
        return 4
    return 5
