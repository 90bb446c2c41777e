"""A search for mates in at most two moves, for either side: what it finds is a proof, and it does not find all.

The side that mates tries every move as its last one but one where the king that it hunts has few replies, and
otherwise only checks. So a mate in three is found one move later, in the position after its first move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from chess_env.evaluators.builtin.quiescence import FEW_REPLIES, LAST_RANK
from chess_env.jit import inlined, kernel, stack_words
from chess_env.rules.bitboards import (
    BETWEEN,
    KING,
    KNIGHT,
    U0,
    U1,
    U8,
    bishop_attacks,
    lowest_square,
    pawn_attacks_down,
    popcount,
    rook_attacks,
    square_bit,
)
from chess_env.rules.movegen import (
    MAX_LEGAL,
    TARGET_WORDS,
    apply,
    in_check,
    king_can_step,
    legal_actions_of,
    legal_targets,
    pinned_men,
    write_legal,
)
from chess_env.rules.packed import (
    BISHOPS,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    en_passant_square,
    occupied_squares,
)

MAX_REPLIES = 20
"""Where the side that is hunted has more legal moves than this, its opponent's next move is tried only if it checks."""

MOST_AFTER_CHECK, MOST_AFTER_MOVE = FEW_REPLIES, 4
"""Legal moves that a side may have left after the first move of a mate in two: after a check, which alone is tried by
the side to move, and after any move, which is tried against a side that is behind. Mates that leave more are rare."""

LOST_CP, HELD_CP = -500, -400
"""Scores up to which a side is asked whether it is mated, and from which on whether it mates."""

MAX_NODES = 4_000
"""Positions that are looked at for one answer."""

_MATE_SCORE = 10_000
_LEVELS = 6  # of the search, one row of moves and one board each
_BOARD_WORDS, _MOVE_WORDS = 8 * _LEVELS, MAX_LEGAL * _LEVELS
_NODES = 0  # what `counts` holds: positions looked at


class _Checks(NamedTuple):
    """From where a man of the side to move would check the king, its other men and moves aside.

    Attributes:
        knight, pawn, diagonal, straight: squares, uint64; a queen checks from the last two.
        uncovers: uint64, men that stand alone before a slider of their own.
        en_passant: uint64, the square of a capture en passant, which may uncover a check.
    """

    knight: np.uint64
    pawn: np.uint64
    diagonal: np.uint64
    straight: np.uint64
    uncovers: np.uint64
    en_passant: np.uint64


@inlined
def _checks_on(board: NDArray[np.uint64]) -> _Checks:
    own = board[OWN]
    occupied = occupied_squares(board)
    king = lowest_square(board[KINGS] & ~own)
    straight, diagonal = rook_attacks(king, occupied), bishop_attacks(king, occupied)
    uncovers = U0
    sliders = rook_attacks(king, occupied ^ straight & own) & (board[ROOKS] | board[QUEENS])
    sliders |= bishop_attacks(king, occupied ^ diagonal & own) & (board[BISHOPS] | board[QUEENS])
    sliders &= own
    while sliders:
        uncovers |= BETWEEN[king, lowest_square(sliders)] & own
        sliders &= sliders - U1
    en_passant = square_bit(en_passant_square(board)) if en_passant_square(board) else U0
    pawn = pawn_attacks_down(square_bit(king))
    return _Checks(KNIGHT[king], pawn, diagonal, straight, uncovers, en_passant)


@kernel
def _possible_checks(board: NDArray[np.uint64], moves: NDArray[np.int16]) -> int:
    """Number of legal moves that may give check, written to `moves`; those that are not there give none."""
    checks = _checks_on(board)
    targets = carray(stack_words(TARGET_WORDS), TARGET_WORDS, np.uint64)
    movers = legal_targets(board, targets)
    # A man that uncovers a slider may go anywhere; a king checks by castling alone.
    men = movers & ~checks.uncovers
    king = board[KINGS] & men
    if king:
        targets[lowest_square(king)] &= ~KING[lowest_square(king)]
    pawns, knights = board[PAWNS] & men, board[KNIGHTS] & men
    bishops, rooks, queens = board[BISHOPS] & men, board[ROOKS] & men, board[QUEENS] & men
    while pawns:
        targets[lowest_square(pawns)] &= checks.pawn | checks.en_passant | LAST_RANK
        pawns &= pawns - U1
    while knights:
        targets[lowest_square(knights)] &= checks.knight
        knights &= knights - U1
    while bishops:
        targets[lowest_square(bishops)] &= checks.diagonal
        bishops &= bishops - U1
    while rooks:
        targets[lowest_square(rooks)] &= checks.straight
        rooks &= rooks - U1
    while queens:
        targets[lowest_square(queens)] &= checks.diagonal | checks.straight
        queens &= queens - U1
    return write_legal(board, movers, targets, moves)


@inlined
def _surely_more(board: NDArray[np.uint64], most: int) -> bool:
    """True where the side to move, not in check, has more than `most` moves without its king and pinned men."""
    own, occupied = board[OWN], occupied_squares(board)
    free = own & ~pinned_men(board, occupied)
    pawns = board[PAWNS] & free
    number = popcount(pawns << U8 & ~occupied)
    men = board[KNIGHTS] & free
    while men and number <= most:
        number += popcount(KNIGHT[lowest_square(men)] & ~own)
        men &= men - U1
    men = (board[ROOKS] | board[QUEENS]) & free
    while men and number <= most:
        number += popcount(rook_attacks(lowest_square(men), occupied) & ~own)
        men &= men - U1
    men = (board[BISHOPS] | board[QUEENS]) & free
    while men and number <= most:
        number += popcount(bishop_attacks(lowest_square(men), occupied) & ~own)
        men &= men - U1
    return number > most


@kernel
def every_quiet_move_leaves_more(board: NDArray[np.uint64], most: int) -> bool:
    """True where the opponent has more than `most` moves after any move of the side to move that is no check.

    Counted are moves of men that no move can pin, to squares where nothing can block them: a neighbouring square, a
    knight's jump, a push. One move takes one of the men, or stands in the way of one push.
    """
    if en_passant_square(board):  # takes two men off a line at once
        return False
    own, occupied = board[OWN], occupied_squares(board)
    their = occupied ^ own
    king = lowest_square(board[KINGS] & their)
    free = their & ~(rook_attacks(king, their) | bishop_attacks(king, their) | board[KINGS])
    pushes = popcount((board[PAWNS] & free) >> U8 & ~occupied)
    total, largest = pushes, min(pushes, 1)
    men = free & ~board[PAWNS]
    while men and total - largest <= most:
        square = lowest_square(men)
        man = square_bit(square)
        if board[KNIGHTS] & man:
            targets = KNIGHT[square]
        elif board[BISHOPS] & man:
            targets = KING[square] & bishop_attacks(square, U0)
        elif board[ROOKS] & man:
            targets = KING[square] & rook_attacks(square, U0)
        else:
            targets = KING[square]
        number = popcount(targets & ~their)
        total += number
        largest = max(largest, number)
        men &= men - U1
    return total - largest > most


@kernel
def _mates_in_1(
    boards: NDArray[np.uint64], moves: NDArray[np.int16], level: int, counts: NDArray[np.int64]
) -> bool:
    """Whether the side to move on `boards[level]` has a move that mates."""
    number = _possible_checks(boards[level], moves[level])
    counts[_NODES] += number
    for i in range(number):
        apply(boards[level], moves[level, i], boards[level + 1])
        after = boards[level + 1]
        if not in_check(after) or king_can_step(after):
            continue
        if legal_actions_of(after, moves[level + 1]) == 0:
            return True
    return False


@kernel
def _is_mated_in_1(
    boards: NDArray[np.uint64],
    moves: NDArray[np.int16],
    level: int,
    counts: NDArray[np.int64],
    refuting: NDArray[np.int16],
) -> bool:
    """Whether every move on `boards[level]` is answered by mate; False where there is none."""
    number = legal_actions_of(boards[level], moves[level])
    # What saved the king after another move of the opponent will often save it again.
    for i in range(number):
        if moves[level, i] == refuting[level]:
            moves[level, i], moves[level, 0] = moves[level, 0], moves[level, i]
    for i in range(number):
        apply(boards[level], moves[level, i], boards[level + 1])
        if not _mates_in_1(boards, moves, level + 1, counts):
            refuting[level] = moves[level, i]
            return False
    return number > 0


@kernel
def _mates_in(
    boards: NDArray[np.uint64],
    moves: NDArray[np.int16],
    level: int,
    counts: NDArray[np.int64],
    refuting: NDArray[np.int16],
    only_checks: bool,
    most: int,
) -> int:
    """1 or 2 where the side to move on `boards[level]` mates in so many moves, otherwise 0.

    In two, by a move that leaves at most `most` replies, and by a check if `only_checks`.
    """
    if only_checks or every_quiet_move_leaves_more(boards[level], most):
        number = _possible_checks(boards[level], moves[level])
    else:
        number = legal_actions_of(boards[level], moves[level])
    counts[_NODES] += number
    kept = 0
    for i in range(number):
        apply(boards[level], moves[level, i], boards[level + 1])
        after = boards[level + 1]
        checks = in_check(after)
        if not checks and (only_checks or _surely_more(after, most)):
            continue
        replies = legal_actions_of(after, moves[level + 1])
        if replies == 0 and checks:
            return 1
        if 0 < replies <= most:
            moves[level, kept] = moves[level, i]
            kept += 1
    for i in range(kept):
        if counts[_NODES] > MAX_NODES:
            return 0
        apply(boards[level], moves[level, i], boards[level + 1])
        if _is_mated_in_1(boards, moves, level + 1, counts, refuting):
            return 2
    return 0


@kernel
def _is_mated_in(
    boards: NDArray[np.uint64],
    moves: NDArray[np.int16],
    counts: NDArray[np.int64],
    refuting: NDArray[np.int16],
) -> int:
    """1 or 2 where the side to move on `boards[0]` is mated in so many moves, otherwise 0."""
    number = legal_actions_of(boards[0], moves[0])
    only_checks = number > MAX_REPLIES
    longest = 0
    for i in range(number):
        apply(boards[0], moves[0, i], boards[1])
        n = _mates_in(boards, moves, 1, counts, refuting, only_checks, MOST_AFTER_MOVE)
        if n == 0:
            return 0
        longest = max(longest, n)
    return longest


@kernel
def _prove(
    positions: NDArray[np.uint64], scores: NDArray[np.int32], forcing: NDArray[np.bool_]
) -> int:
    boards = carray(stack_words(_BOARD_WORDS), (_LEVELS, 8), np.uint64)
    moves = carray(stack_words(_MOVE_WORDS), (_LEVELS, MAX_LEGAL), np.int16)
    counts = carray(stack_words(1), 1, np.int64)
    refuting = carray(stack_words(_LEVELS), _LEVELS, np.int16)
    proven = 0
    for row in range(len(positions)):
        if scores[row] > LOST_CP and not forcing[row]:
            continue
        boards[0] = positions[row]
        counts[_NODES] = 0
        refuting[:] = -1
        if scores[row] <= LOST_CP:
            n = _is_mated_in(boards, moves, counts, refuting)
            found = n - _MATE_SCORE
        elif scores[row] >= HELD_CP:
            n = _mates_in(boards, moves, 0, counts, refuting, True, MOST_AFTER_CHECK)
            found = _MATE_SCORE - n
        else:
            continue
        if n and scores[row] != found:
            scores[row] = found
            proven += 1
    return proven


def prove_mates(
    positions: NDArray[np.uint64], scores: NDArray[np.int32], forcing: NDArray[np.bool_]
) -> int:
    """Writes +-(10000 - n) to `scores` where the side to move mates or is mated in n = 1 or 2; how many it changed.

    Args:
        positions: uint64 [N, 8], packed, in which the game goes on.
        scores: int32 [N], centipawns of the side to move by another search, which stay where nothing is proven.
        forcing: bool [N], False where it is known that no check of the side to move leaves at most `MOST_AFTER_CHECK`
            replies.
    """
    return int(_prove(positions, scores, forcing))
