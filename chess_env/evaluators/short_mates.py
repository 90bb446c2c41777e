"""A search for mates in at most two moves, for either side: what it finds is a proof, and it does not find all.

The side that mates tries every move as its last one but one where the king that it hunts has few replies, and
otherwise only checks. So a mate in three is found one move later, in the position after its first move.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import inlined, kernel
from chess_env.moves import ACTION_FROM, ACTION_TO
from chess_env.rules.bitboards import (
    BETWEEN,
    KNIGHT,
    U0,
    U1,
    bishop_attacks,
    lowest_square,
    pawn_attacks_down,
    rook_attacks,
    square_bit,
)
from chess_env.rules.movegen import MAX_LEGAL, apply, in_check, legal_actions_of
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

LOST_CP, HELD_CP = -500, -400
"""Scores up to which a side is asked whether it is mated, and from which on whether it mates."""

MAX_NODES = 4_000
"""Positions that are looked at for one answer."""

_MATE_SCORE = 10_000
_LEVELS = 5  # of the search below a position, one row of moves and one board each
_NODES = 0  # what `counts` holds: positions looked at
_FROM, _TO = ACTION_FROM.astype(np.int64), ACTION_TO.astype(np.int64)
_LAST_RANK = np.uint64(0xFF << 56)
_CASTLING_FROM = np.uint64(1 << 4)


@kernel
def _keep_possible_checks(board: NDArray[np.uint64], moves: NDArray[np.int16], number: int) -> int:
    """How many of the moves may give check; they come first in `moves` afterwards. Those left out give none."""
    own = board[OWN]
    occupied = occupied_squares(board)
    king = lowest_square(board[KINGS] & ~own)
    straight, diagonal = rook_attacks(king, occupied), bishop_attacks(king, occupied)
    knight, pawn = KNIGHT[king], pawn_attacks_down(square_bit(king))
    # A man of one's own that stands alone before a slider uncovers a check.
    uncovers = U0
    sliders = rook_attacks(king, occupied ^ straight & own) & (board[ROOKS] | board[QUEENS])
    sliders |= bishop_attacks(king, occupied ^ diagonal & own) & (board[BISHOPS] | board[QUEENS])
    sliders &= own
    while sliders:
        uncovers |= BETWEEN[king, lowest_square(sliders)] & own
        sliders &= sliders - U1
    en_passant = square_bit(en_passant_square(board)) if en_passant_square(board) else U0
    kept = 0
    for i in range(number):
        start, end = square_bit(_FROM[moves[i]]), square_bit(_TO[moves[i]])
        if uncovers & start:
            may = True
        elif board[PAWNS] & start:
            may = (pawn | en_passant | _LAST_RANK) & end != U0
        elif board[KNIGHTS] & start:
            may = knight & end != U0
        elif board[BISHOPS] & start:
            may = diagonal & end != U0
        elif board[ROOKS] & start:
            may = straight & end != U0
        elif board[QUEENS] & start:
            may = (straight | diagonal) & end != U0
        else:  # a king checks by castling alone
            may = start == _CASTLING_FROM and abs(_FROM[moves[i]] - _TO[moves[i]]) == 2
        if may:
            moves[kept] = moves[i]
            kept += 1
    return kept


@inlined
def _is_mated(board: NDArray[np.uint64], moves: NDArray[np.int16]) -> bool:
    return in_check(board) and legal_actions_of(board, moves) == 0


@kernel
def _mates_in_1(
    boards: NDArray[np.uint64], moves: NDArray[np.int16], level: int, counts: NDArray[np.int64]
) -> bool:
    """Whether the side to move on `boards[level]` has a move that mates."""
    number = legal_actions_of(boards[level], moves[level])
    number = _keep_possible_checks(boards[level], moves[level], number)
    for i in range(number):
        apply(boards[level], moves[level, i], boards[level + 1])
        if _is_mated(boards[level + 1], moves[level + 1]):
            counts[_NODES] += i + 1
            return True
    counts[_NODES] += number
    return False


@kernel
def _is_mated_in_1(
    boards: NDArray[np.uint64],
    moves: NDArray[np.int16],
    level: int,
    counts: NDArray[np.int64],
    refuting: NDArray[np.int16],
) -> bool:
    """Whether every move on `boards[level]` is answered by mate; False where there is no move."""
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
def _mates_in_2(
    boards: NDArray[np.uint64],
    moves: NDArray[np.int16],
    level: int,
    counts: NDArray[np.int64],
    refuting: NDArray[np.int16],
    only_checks: bool,
) -> bool:
    """Whether a move on `boards[level]` leaves the opponent mated in one, whatever it answers."""
    number = legal_actions_of(boards[level], moves[level])
    if only_checks:
        number = _keep_possible_checks(boards[level], moves[level], number)
    for i in range(number):
        if counts[_NODES] > MAX_NODES:
            return False
        apply(boards[level], moves[level, i], boards[level + 1])
        if only_checks and not in_check(boards[level + 1]):
            continue
        if _is_mated_in_1(boards, moves, level + 1, counts, refuting):
            return True
    return False


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
    longest = 1
    for i in range(number):
        apply(boards[0], moves[0, i], boards[1])
        if not _mates_in_1(boards, moves, 1, counts):
            if not _mates_in_2(boards, moves, 1, counts, refuting, only_checks):
                return 0
            longest = 2
    return longest


@kernel
def _prove(
    positions: NDArray[np.uint64], scores: NDArray[np.int32], lost_cp: int, held_cp: int
) -> int:
    boards = np.empty((_LEVELS + 1, 8), np.uint64)
    moves = np.empty((_LEVELS + 1, MAX_LEGAL), np.int16)
    counts = np.zeros(1, np.int64)
    refuting = np.empty(_LEVELS + 1, np.int16)
    total = 0
    for row in range(len(positions)):
        boards[0] = positions[row]
        counts[_NODES] = 0
        refuting[:] = -1
        if scores[row] <= lost_cp:
            n = _is_mated_in(boards, moves, counts, refuting)
            if n:
                scores[row] = -_MATE_SCORE + n
        elif scores[row] >= held_cp:
            if _mates_in_1(boards, moves, 0, counts):
                scores[row] = _MATE_SCORE - 1
            elif _mates_in_2(boards, moves, 0, counts, refuting, True):
                scores[row] = _MATE_SCORE - 2
        total += counts[_NODES]
    return total


def prove_mates(
    positions: NDArray[np.uint64],
    scores: NDArray[np.int32],
    *,
    lost_cp: int = LOST_CP,
    held_cp: int = HELD_CP,
) -> int:
    """Writes +-(10000 - n) to `scores` where the side to move mates or is mated in n = 1 or 2; positions looked at.

    Args:
        positions: uint64 [N, 8], packed, in which the game goes on.
        scores: int32 [N], centipawns of the side to move by another search, which stay where nothing is proven.
        lost_cp: up to this score it is asked whether the side to move is mated.
        held_cp: from this score on whether it mates.
    """
    return int(_prove(positions, scores, lost_cp, held_cp))
