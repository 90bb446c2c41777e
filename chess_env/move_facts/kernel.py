"""The facts of every legal move, compiled: `table.MOVE_FACTS` for N boards x L moves.

The facts are read from maps of what each side attacks. How many replies a move leaves is counted from these maps
too, where nothing ties the replying men down, and by listing the moves otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from chess_env.jit import inlined, kernel, stack_words
from chess_env.move_facts.table import FACT_INDEX as F
from chess_env.move_facts.table import REPLY_LIMITS
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO
from chess_env.rules.bitboards import (
    KING,
    KNIGHT,
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
    pawn_attacks_down,
    popcount,
    rook_attacks,
    square_bit,
)
from chess_env.rules.movegen import apply, checkers_of, list_legal, pinned_men
from chess_env.rules.packed import (
    BISHOPS,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    STATE,
    Positions,
    en_passant_square,
    occupied_squares,
    rule50_clock,
)
from chess_env.rules.rules import has_insufficient_material, occurred, position_hash


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


_RANK_3 = np.uint64(0xFF << 16)
_RANK_8 = np.uint64(0xFF << 56)
_KINGSIDE, _QUEENSIDE, _QUEENSIDE_PATH = np.uint64(0x60), np.uint64(0x0E), np.uint64(0x0C)
_THREE = 3  # a pawn that promotes has four moves to a square


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
    listed, into `spare` (int16 `[ROOM]`).

    Args:
        position: packed.
        ours: attacks of the side to move.
        theirs: attacks of the other side.
        spare: scratch.
    """
    own, occupied = position[OWN], occupied_squares(position)
    king = position[KINGS] & own
    tied = king & theirs.all != U0 or en_passant_square(position) != 0
    if tied or pinned_men(position, occupied):
        return list_legal(position, spare)
    count = ours.moves + popcount(KING[lowest_square(king)] & ~own & ~theirs.all)
    rights, guarded = position[STATE], theirs.all
    if rights & U1 and (occupied | guarded) & _KINGSIDE == U0:
        count += 1
    if rights & U2 and occupied & _QUEENSIDE == U0 and guarded & _QUEENSIDE_PATH == U0:
        count += 1
    return count + _pawn_moves(position, own, occupied)


_REPLY_LIMITS = np.array(REPLY_LIMITS)
NO_KIND = 6
ROOM = 64 * 64
"""Moves that are listed at most; a board that somebody set up may have more than a game's."""

Facts = NDArray[np.uint8]


@inlined
def kind_at(position: Positions, square: np.uint64) -> int:
    """int64: the kind, 0 pawn .. 5 king, of the man on the square (a bitboard); `NO_KIND` (6) where it is empty."""
    for kind in range(6):
        if position[kind] & square:
            return kind
    return NO_KIND


@inlined
def _write_move(
    position: Positions, action: int, theirs: Attacks, ours: Attacks, out: Facts
) -> None:
    """Writes the group `move`, where `theirs` and `ours` are the attacks before it."""
    start, end = ACTION_FROM[action], ACTION_TO[action]
    origin = square_bit(start)
    kind, taken = kind_at(position, origin), kind_at(position, square_bit(end))
    out[F.moves_pawn + kind] = 1
    if kind == PAWNS and end == en_passant_square(position) and end:
        out[F.en_passant] = 1
        taken = PAWNS
    out[F.takes_nothing if taken == NO_KIND else F.takes_pawn + taken] = 1
    if kind == PAWNS and end >= 56:
        promoted = ACTION_PROMOTION[action] - 1 if ACTION_PROMOTION[action] else QUEENS
        out[F.promotes_to_knight + promoted - KNIGHTS] = 1
    if kind == KINGS and abs(end - start) == 2:
        out[F.castles] = 1
    attacker = least_attacker(theirs, origin)
    if attacker != NO_KIND:
        out[F.origin_attacked_by_pawn + attacker] = 1
    out[F.origin_defended] = ours.all & origin != U0


@inlined
def _write_ending(child: Positions, count: int, earlier: int, clock_limit: int, out: Facts) -> None:
    """Writes how the game stands after the move."""
    checkers = checkers_of(child)
    out[F.gives_check] = checkers != U0
    out[F.gives_double_check] = checkers & (checkers - U1) != U0
    if count == 0:
        out[F.checkmates if checkers else F.stalemates] = 1
    out[F.insufficient_material] = has_insufficient_material(child)
    out[F.rule50_limit] = rule50_clock(child) >= clock_limit
    out[F.repeats] = earlier >= 1
    out[F.repeats_twice] = earlier >= 2
    for i in range(_REPLY_LIMITS.shape[0]):
        out[F.replies_at_most_1 + i] = count <= _REPLY_LIMITS[i]


@inlined
def reach_of(child: Positions, end: int) -> np.uint64:
    """uint64: squares that a man of the side that does not move attacks from `end`."""
    landed, occupied = square_bit(end), occupied_squares(child)
    if child[PAWNS] & landed:
        return pawn_attacks_down(landed)
    if child[KNIGHTS] & landed:
        return KNIGHT[end]
    if child[KINGS] & landed:
        return KING[end]
    reach = U0
    if (child[BISHOPS] | child[QUEENS]) & landed:
        reach |= bishop_attacks(end, occupied)
    if (child[ROOKS] | child[QUEENS]) & landed:
        reach |= rook_attacks(end, occupied)
    return reach


@inlined
def _write_man(child: Positions, end: int, replier: Attacks, mover: Attacks, out: Facts) -> None:
    """Writes how the man that moved stands on `end`, in the replier's view of the board."""
    landed = square_bit(end)
    attacker, defender = least_attacker(replier, landed), least_attacker(mover, landed)
    if attacker != NO_KIND:
        out[F.attacked_by_pawn + attacker] = 1
    if defender != NO_KIND:
        out[F.defended_by_pawn + defender] = 1
    out[F.attacked_twice] = replier.twice & landed != U0
    out[F.defended_twice] = mover.twice & landed != U0
    reach = reach_of(child, end)
    reach &= child[OWN]
    for kind in range(6):
        out[F.attacks_pawn + kind] = reach & child[kind] != U0


@inlined
def _write_loose(
    child: Positions, men: np.uint64, attackers: Attacks, defenders: Attacks, first: int, out: Facts
) -> None:
    """Writes which of `men` stand loose, from column `first` on."""
    attacked = men & attackers.all
    loose = attacked & ~defenders.all
    for kind in range(5):
        found = loose & child[kind]
        out[first + kind] = found != U0
        out[first + 5 + kind] = found & (found - U1) != U0
    lesser = attackers.pawn
    out[first + 10] = men & child[KNIGHTS] & lesser != U0
    out[first + 11] = men & child[BISHOPS] & lesser != U0
    lesser |= attackers.knight | attackers.bishop
    out[first + 12] = men & child[ROOKS] & lesser != U0
    lesser |= attackers.rook
    out[first + 13] = men & child[QUEENS] & lesser != U0


@kernel
def write_facts(
    rows: NDArray[np.int64],
    positions: Positions,
    legal_ids: NDArray[np.int16],
    history: NDArray[np.uint64],
    history_length: NDArray[np.int64],
    clock_limit: int,
    facts: Facts,
) -> None:
    """Writes the facts of all legal moves on the boards `rows` to `facts` uint8 [N, L, F], and 0 on padding.

    Args:
        rows: int64 [n].
        positions: uint64 [N, 8].
        legal_ids: int16 [N, L or more], padded with -1 at the end.
        history: uint64 [N, H], hashes since the last irreversible move, the present position's last.
        history_length: int64 [N, 1 or more], in the first column the number of valid entries in `history`.
        clock_limit: rule-50 clock at which a game ends.
        facts: the output.
    """
    child = carray(stack_words(8), 8, np.uint64)
    spare = carray(stack_words(ROOM), ROOM, np.int16)
    for row in rows:
        position = positions[row]
        own, occupied = position[OWN], occupied_squares(position)
        ours = attacks_of(position, own, occupied, True)
        theirs = attacks_of(position, occupied ^ own, occupied, False)
        facts[row] = 0
        for slot in range(facts.shape[1]):
            action = legal_ids[row, slot]
            if action < 0:
                break
            out = facts[row, slot]
            _write_move(position, action, theirs, ours, out)
            apply(position, action, child)
            earlier = 0
            if history_length[row, 0] > 1 and rule50_clock(child):
                earlier = occurred(history[row], history_length[row, 0], position_hash(child))
            # From here on the board is the replier's: its men are OWN and move up.
            men = occupied_squares(child)
            to_reply, moved = child[OWN], men ^ child[OWN]
            replier = attacks_of(child, to_reply, men, True)
            mover = attacks_of(child, moved, men, False)
            count = num_replies(child, replier, mover, spare)
            _write_ending(child, count, earlier, clock_limit, out)
            _write_man(child, ACTION_TO[action] ^ 56, replier, mover, out)
            _write_loose(child, moved, replier, mover, F.mover_pawn_loose, out)
            _write_loose(child, to_reply, mover, replier, F.opponent_pawn_loose, out)
            kings = child[KINGS]
            out[F.mover_king_ring] = popcount(KING[lowest_square(kings & moved)] & replier.all)
            out[F.opponent_king_ring] = popcount(KING[lowest_square(kings & to_reply)] & mover.all)
            out[F.mover_squares] = popcount(mover.all)
            out[F.opponent_squares] = popcount(replier.all)
            out[F.mover_men_attacked] = popcount(moved & replier.all)
            out[F.opponent_men_attacked] = popcount(to_reply & mover.all)
