"""Static evaluation of a quiet position, compiled: a sum of tapered terms, integers only.

A board is a packed position (see `chess_env/rules/packed.py`) as a tuple of eight uint64, which the compiler
keeps in registers. Every term has a middlegame and an endgame value, packed into one int64; the two
sums are blended by the material left. The values are data: `piece_square_tables.py`.
"""

from __future__ import annotations

import numpy as np

from chess_env.evaluators.builtin import piece_square_tables as pst
from chess_env.evaluators.builtin.piece_square_tables import TERMS
from chess_env.jit import inlined, kernel
from chess_env.rules.bitboards import (
    KING,
    KNIGHT,
    U0,
    U1,
    U8,
    beside,
    bishop_attacks,
    fill_down,
    fill_up,
    flip_vertical,
    lowest_square,
    pawn_attacks_up,
    popcount,
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
from chess_env.rules.rules import has_insufficient_material

PHASE_TOTAL = 24
MAX_EVAL = 9_000
_HALF = np.int64(1) << np.int64(31)
_LOW = np.int64(0xFFFFFFFF)
_SHIFT_32 = np.int64(32)
# Half a board file by file: squares 8 * rank + file and 8 * rank + (7 - file) share one value.
_HALF_SQUARE = np.array([4 * (s // 8) + min(s % 8, 7 - s % 8) for s in range(64)], np.int64)
_DISTANCE = np.array(
    [[max(abs(a // 8 - b // 8), abs(a % 8 - b % 8)) for b in range(64)] for a in range(64)],
    np.int64,
)
_FILE_OF = np.array([0x0101010101010101 << (s % 8) for s in range(64)], np.uint64)
_RANK_2_TO_4 = np.uint64(0x00000000FFFFFF00)


@inlined
def _pawn_terms(own_pawns, their_pawns, own_king, their_king, occupied):
    """int64: packed value of one side's pawns, seen from that side."""
    total = np.int64(0)
    # Squares from which no opposing pawn can ever stop or capture a pawn.
    shadow = fill_down(their_pawns | beside(their_pawns)) >> U8
    attacked = pawn_attacks_up(own_pawns)
    files = fill_up(fill_down(own_pawns))
    isolated = own_pawns & ~beside(files)
    connected = own_pawns & (attacked | beside(own_pawns))
    doubled = own_pawns & (fill_down(own_pawns) >> U8)
    total += popcount(isolated) * TERMS[pst.ISOLATED] + popcount(doubled) * TERMS[pst.DOUBLED]
    bits = own_pawns
    while bits:
        square = lowest_square(bits)
        total += TERMS[pst.PIECE_SQUARE + _HALF_SQUARE[square]]
        bits &= bits - U1
    while connected:
        total += TERMS[pst.CONNECTED + (lowest_square(connected) >> 3)]
        connected &= connected - U1
    passed = own_pawns & ~shadow & ~doubled
    while passed:
        square = lowest_square(passed)
        rank = square >> 3
        total += TERMS[pst.PASSED + rank]
        if square_bit(square + 8) & occupied:
            total += TERMS[pst.PASSED_BLOCKED + rank]
        total += TERMS[pst.PASSED_OWN_KING + _DISTANCE[square + 8, own_king]] * rank
        total += TERMS[pst.PASSED_THEIR_KING + _DISTANCE[square + 8, their_king]] * rank
        passed &= passed - U1
    return total


@inlined
def _piece_terms(board, occupied, their_pawn_attacks, ring):
    """(int64 packed value, uint64 minor, rook, queen attacks, int64 king attack units) of the mover's men."""
    own = board[OWN]
    own_pawns = board[PAWNS] & own
    their_pawns = board[PAWNS] & ~own
    pawn_attacks = pawn_attacks_up(own_pawns)
    reach = ~(their_pawn_attacks | own_pawns | (board[KINGS] & own))
    total = np.int64(0)
    units = np.int64(0)
    minors = rooks = queens = U0

    bits = board[KNIGHTS] & own
    if bits:
        outposts = bits & pawn_attacks & ~fill_down(beside(their_pawns))
        total += popcount(outposts) * TERMS[pst.OUTPOST]
    while bits:
        square = lowest_square(bits)
        attacks = KNIGHT[square]
        minors |= attacks
        units += 2 * popcount(attacks & ring)
        total += (
            TERMS[pst.PIECE_SQUARE + 32 + _HALF_SQUARE[square]]
            + TERMS[pst.MOBILITY_N + popcount(attacks & reach)]
        )
        bits &= bits - U1
    bits = board[BISHOPS] & own
    if bits & (bits - U1):
        total += TERMS[pst.BISHOP_PAIR]
    while bits:
        square = lowest_square(bits)
        attacks = bishop_attacks(square, occupied)
        minors |= attacks
        units += 2 * popcount(attacks & ring)
        total += (
            TERMS[pst.PIECE_SQUARE + 64 + _HALF_SQUARE[square]]
            + TERMS[pst.MOBILITY_B + popcount(attacks & reach)]
        )
        bits &= bits - U1
    bits = board[ROOKS] & own
    while bits:
        square = lowest_square(bits)
        attacks = rook_attacks(square, occupied)
        rooks |= attacks
        units += 3 * popcount(attacks & ring)
        total += (
            TERMS[pst.PIECE_SQUARE + 96 + _HALF_SQUARE[square]]
            + TERMS[pst.MOBILITY_R + popcount(attacks & reach)]
        )
        file = _FILE_OF[square]
        if file & own_pawns == U0:
            total += TERMS[pst.ROOK_SEMI_OPEN] if file & their_pawns else TERMS[pst.ROOK_OPEN]
        bits &= bits - U1
    bits = board[QUEENS] & own
    while bits:
        square = lowest_square(bits)
        attacks = bishop_attacks(square, occupied) | rook_attacks(square, occupied)
        queens |= attacks
        units += 5 * popcount(attacks & ring)
        total += (
            TERMS[pst.PIECE_SQUARE + 128 + _HALF_SQUARE[square]]
            + TERMS[pst.MOBILITY_Q + popcount(attacks & reach)]
        )
        bits &= bits - U1

    king = lowest_square(board[KINGS] & own)
    total += TERMS[pst.PIECE_SQUARE + 160 + _HALF_SQUARE[king]]
    near = (_FILE_OF[king] | beside(_FILE_OF[king])) & own_pawns
    total += TERMS[pst.SHIELD + min(3, popcount(near & _RANK_2_TO_4))]
    if _FILE_OF[king] & own_pawns == U0:
        total += TERMS[pst.KING_OPEN_FILE]
    return total, minors, rooks, queens, units


@inlined
def _threat_terms(board, side, by_pawns, by_minors, by_rooks, by_any, defended, base):
    """int64: packed value of the attacks on `side`'s men; `base` is the first of eleven terms."""
    knights, bishops = board[KNIGHTS] & side, board[BISHOPS] & side
    rooks, queens = board[ROOKS] & side, board[QUEENS] & side
    minors = knights | bishops
    total = popcount(minors & by_pawns) * TERMS[base]
    total += popcount(rooks & by_pawns) * TERMS[base + 1]
    total += popcount(queens & by_pawns) * TERMS[base + 2]
    total += popcount(rooks & by_minors) * TERMS[base + 3]
    total += popcount(queens & by_minors) * TERMS[base + 4]
    total += popcount(queens & by_rooks) * TERMS[base + 5]
    loose = by_any & ~defended
    total += popcount(board[PAWNS] & side & loose) * TERMS[base + 6]
    total += popcount(knights & loose) * TERMS[base + 7]
    total += popcount(bishops & loose) * TERMS[base + 8]
    total += popcount(rooks & loose) * TERMS[base + 9]
    total += popcount(queens & loose) * TERMS[base + 10]
    return total


@inlined
def blend(total, phase):
    """int64: centipawns of a packed total at a phase (0 bare kings and pawns .. 24 full board)."""
    middlegame = ((total + _HALF) & _LOW) - _HALF
    endgame = (total - middlegame) >> _SHIFT_32
    return (middlegame * phase + endgame * (PHASE_TOTAL - phase)) // PHASE_TOTAL


@kernel
def evaluate_packed(board):
    """(int64 packed total from the mover's view, uint64 x 4 squares of the opponent, own minors, rooks, queens)."""
    own = board[OWN]
    occupied = occupied_squares(board)
    their = occupied ^ own
    turned = (
        flip_vertical(board[0]),
        flip_vertical(board[1]),
        flip_vertical(board[2]),
        flip_vertical(board[3]),
        flip_vertical(board[4]),
        flip_vertical(board[5]),
        flip_vertical(their),
        U0,
    )
    turned_occupied = flip_vertical(occupied)
    own_king = lowest_square(board[KINGS] & own)
    their_king = lowest_square(board[KINGS] & their)
    own_pawn_attacks = pawn_attacks_up(board[PAWNS] & own)
    turned_pawn_attacks = pawn_attacks_up(turned[PAWNS] & turned[OWN])
    their_pawn_attacks = flip_vertical(turned_pawn_attacks)
    own_ring, their_ring = KING[own_king], KING[their_king]

    total = TERMS[pst.TEMPO]
    total += _pawn_terms(board[PAWNS] & own, board[PAWNS] & their, own_king, their_king, occupied)
    total -= _pawn_terms(
        turned[PAWNS] & turned[OWN],
        turned[PAWNS] & ~turned[OWN],
        their_king ^ 56,
        own_king ^ 56,
        turned_occupied,
    )
    value, minors, rooks, queens, units = _piece_terms(
        board, occupied, their_pawn_attacks, their_ring
    )
    total += value + TERMS[pst.KING_DANGER + min(units, 31)]
    own_attacks = own_pawn_attacks | minors | rooks | queens | own_ring
    value, turned_minors, turned_rooks, turned_queens, units = _piece_terms(
        turned, turned_occupied, flip_vertical(own_pawn_attacks), flip_vertical(own_ring)
    )
    total -= value + TERMS[pst.KING_DANGER + min(units, 31)]
    their_minors, their_rooks = flip_vertical(turned_minors), flip_vertical(turned_rooks)
    their_attacks = (
        their_pawn_attacks | their_minors | their_rooks | flip_vertical(turned_queens) | their_ring
    )
    total += _threat_terms(
        board, their, own_pawn_attacks, minors, rooks, own_attacks, their_attacks, pst.THREAT
    )
    total -= _threat_terms(
        board,
        own,
        their_pawn_attacks,
        their_minors,
        their_rooks,
        their_attacks,
        own_attacks,
        pst.THREAT + 11,
    )
    return total, their_attacks, minors, rooks, queens


@inlined
def phase_of_board(board):
    """int64: material left, 24 at the start, 0 with pawns only."""
    phase = (
        popcount(board[KNIGHTS] | board[BISHOPS])
        + 2 * popcount(board[ROOKS])
        + 4 * popcount(board[QUEENS])
    )
    return min(phase, PHASE_TOTAL)


@inlined
def evaluate(board):
    """(int64 centipawns from the mover's view within +-9000, uint64 squares the opponent attacks, `reach`).

    `reach` are the squares that the mover's minors, rooks and queens attack, uint64 x 3.
    """
    total, their_attacks, minors, rooks, queens = evaluate_packed(board)
    reach = minors, rooks, queens
    score = blend(total, phase_of_board(board))
    own = board[OWN]
    side = own if score > 0 else ~own
    if board[PAWNS] & side == U0:
        if has_insufficient_material(board):
            return np.int64(0), their_attacks, reach
        # Without pawns and with hardly more pieces, the stronger side seldom wins.
        minors = board[KNIGHTS] | board[BISHOPS]
        ahead = 3 * (popcount(minors & side) - popcount(minors & ~side))
        ahead += 5 * (popcount(board[ROOKS] & side) - popcount(board[ROOKS] & ~side))
        ahead += 9 * (popcount(board[QUEENS] & side) - popcount(board[QUEENS] & ~side))
        if ahead <= 3:
            score //= 4
    return max(-MAX_EVAL, min(MAX_EVAL, score)), their_attacks, reach
