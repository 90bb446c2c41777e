"""The legal moves of a packed position (`packed.py`), and making a move, compiled.

Everything here takes one position; `rules.py` works on batches. Correctness is tested by perft and
against python-chess.

The ids of moves are written from the target squares of every man in one loop that has no branch for each man: a loop
over the targets of one man ends where the processor cannot predict it. Without such loops, and with one loop for each
kind of man, the legal moves of a position take .78 of the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from chess_env.jit import inlined, kernel, stack_words
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, FROM_TO_ACTION, NUM_FROM_TO
from chess_env.rules.bitboards import (
    BETWEEN,
    KING,
    KNIGHT,
    LINE,
    PAWN_UP,
    U0,
    U1,
    U2,
    U8,
    bishop_attacks,
    flip_vertical,
    knight_set_attacks,
    lowest_square,
    pawn_attacks_down,
    pawn_attacks_up,
    popcount,
    rook_attacks,
    square_bit,
)
from chess_env.rules.packed import (
    BISHOPS,
    BLACK_BIT,
    CLOCK_SHIFT,
    EP_MASK,
    EP_SHIFT,
    FULLMOVE_SHIFT,
    KINGS,
    KNIGHTS,
    OWN,
    PAWNS,
    QUEENS,
    RIGHTS_MASK,
    ROOKS,
    STATE,
    WORD_MASK,
    Positions,
    en_passant_square,
    occupied_squares,
)

_ACTIONS = FROM_TO_ACTION.reshape(-1)
_ROW = 66
_TWO_ROWS = 2 * _ROW
TARGET_WORDS = 64
"""Of the array that `legal_targets` writes to, for `stack_words`."""


@inlined
def write_actions(men: np.uint64, targets: NDArray[np.uint64], out: NDArray[np.int16]) -> int:
    """Number of moves; their ids are written to `out` in ascending order, a promotion's as that to a queen.

    Args:
        men: uint64, the squares that moves start from.
        targets: uint64 [64], where each of these men may go.
        out: int16, long enough.
    """
    # Of each man that can move: its targets, and in the second half where its row of `_ACTIONS` begins.
    lists = carray(stack_words(_TWO_ROWS), _TWO_ROWS, np.uint64)
    listed, total = 0, 0
    while men:
        square = lowest_square(men)
        men &= men - U1
        lists[listed] = targets[square]
        lists[_ROW + listed] = np.uint64(64 * square)
        total += popcount(targets[square])
        listed += int(targets[square] != U0)
    lists[listed] = U0
    left, row, following = lists[0], lists[_ROW], 1
    next_left, next_row = lists[1], lists[_ROW + 1]
    for slot in range(total):
        # An unsigned index: of a signed one it is asked whether it counts from the end.
        out[slot] = _ACTIONS[row + np.uint64(lowest_square(left))]
        left &= left - U1
        # All ones after the last target of a man: then the next man's are taken.
        over = U0 - np.uint64(left == U0)
        left |= next_left & over
        row += (next_row - row) & over
        following += int(over & U1)
        next_left, next_row = lists[following], lists[_ROW + following]
    return total


MAX_LEGAL = 218  # R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1

_THIRD_RANK, _SEVENTH_RANK = np.uint64(0xFF0000), np.uint64(0xFF000000000000)
# uint64 [64] each: castling rights that survive a move from / to a square.
_KEEP_FROM = np.full(64, 15, np.uint64)
_KEEP_FROM[[4, 0, 7]] = (0b1100, 0b1101, 0b1110)
_KEEP_TO = np.full(64, 15, np.uint64)
_KEEP_TO[[63, 56]] = (0b1011, 0b0111)
# int16 [64, 3]: first under-promotion action of a pawn on `from` that goes up-left, straight, up-right.
_UNDERPROMOTION = np.full((64, 3), -1, np.int16)
for _action in range(NUM_FROM_TO, len(ACTION_FROM), 3):
    _UNDERPROMOTION[ACTION_FROM[_action], ACTION_TO[_action] - ACTION_FROM[_action] - 7] = _action


@inlined
def slider_attackers(position: Any, square: int, occupied: np.uint64, men: np.uint64) -> np.uint64:
    """uint64: bishops, rooks and queens among `men` that see `square` through `occupied`."""
    queens = position[QUEENS]
    diagonal = bishop_attacks(square, occupied) & (position[BISHOPS] | queens)
    straight = rook_attacks(square, occupied) & (position[ROOKS] | queens)
    return (diagonal | straight) & men


@inlined
def attackers_of(position: Any, square: int, occupied: np.uint64) -> np.uint64:
    """uint64: men of both sides that see `square` through `occupied`; the position is an array or a tuple."""
    bit = square_bit(square)
    own, pawns, queens = position[OWN], position[PAWNS], position[QUEENS]
    found = pawn_attacks_down(bit) & pawns & own | pawn_attacks_up(bit) & pawns & ~own
    found |= KNIGHT[square] & position[KNIGHTS] | KING[square] & position[KINGS]
    found |= bishop_attacks(square, occupied) & (position[BISHOPS] | queens)
    return found | rook_attacks(square, occupied) & (position[ROOKS] | queens)


@inlined
def checkers_of(position: Positions) -> np.uint64:
    """uint64: the opponent's men that give check to the side to move."""
    own = position[OWN]
    occupied = occupied_squares(position)
    their = occupied ^ own
    square = lowest_square(position[KINGS] & own)
    steppers = KNIGHT[square] & position[KNIGHTS] | PAWN_UP[square] & position[PAWNS]
    return steppers & their | slider_attackers(position, square, occupied, their)


@kernel
def in_check(position: Positions) -> bool:
    """Whether the side to move is in check."""
    return checkers_of(position) != U0


@inlined
def attacked_by_opponent(position: Positions, occupied: np.uint64, their: np.uint64) -> np.uint64:
    """uint64: squares the opponent attacks through `occupied`."""
    attacked = pawn_attacks_down(position[PAWNS] & their) | knight_set_attacks(
        position[KNIGHTS] & their
    )
    attacked |= KING[lowest_square(position[KINGS] & their)]
    sliders = (position[BISHOPS] | position[QUEENS]) & their
    while sliders:
        attacked |= bishop_attacks(lowest_square(sliders), occupied)
        sliders &= sliders - U1
    sliders = (position[ROOKS] | position[QUEENS]) & their
    while sliders:
        attacked |= rook_attacks(lowest_square(sliders), occupied)
        sliders &= sliders - U1
    return attacked


@inlined
def pinned_men(position: Any, occupied: np.uint64) -> np.uint64:
    """uint64: the mover's men that may not leave the line to their king; the position is an array or a tuple."""
    own = position[OWN]
    their = occupied ^ own
    king = lowest_square(position[KINGS] & own)
    snipers = slider_attackers(position, king, their, their)
    pinned = U0
    while snipers:
        between = BETWEEN[king, lowest_square(snipers)] & own
        if between and between & (between - U1) == U0:
            pinned |= between
        snipers &= snipers - U1
    return pinned


@inlined
def king_can_step(position: Positions) -> bool:
    """Whether the king of the side to move can go to a neighbouring square; sooner known than all legal moves."""
    own, occupied = position[OWN], occupied_squares(position)
    king, their = position[KINGS] & own, occupied ^ own
    steps = KING[lowest_square(king)] & ~own
    return steps & ~attacked_by_opponent(position, occupied ^ king, their) != U0


@inlined
def en_passant_is_legal(position: Positions, start: int, target: int) -> bool:
    """Whether the mover's pawn on `start` may capture en passant on `target` without exposing its king."""
    own = position[OWN]
    captured = square_bit(target - 8)
    occupied = (occupied_squares(position) ^ square_bit(start) ^ captured) | square_bit(target)
    their = (occupied_squares(position) ^ own) & ~captured
    square = lowest_square(position[KINGS] & own)
    steppers = KNIGHT[square] & position[KNIGHTS] | PAWN_UP[square] & position[PAWNS]
    return (steppers & their | slider_attackers(position, square, occupied, their)) == U0


@inlined
def legal_targets(position: Positions, targets: NDArray[np.uint64]) -> np.uint64:
    """uint64: the men that may move, which is the king alone in a double check; some have no target.

    Args:
        position: uint64 [8].
        targets: uint64 [64], to which the legal targets of each of these men are written, and castling as a king's.
    """
    own = position[OWN]
    occupied = occupied_squares(position)
    their = occupied ^ own
    king = position[KINGS] & own
    king_square = lowest_square(king)
    danger = attacked_by_opponent(position, occupied ^ king, their)
    checkers = U0
    if king & danger:
        checkers = checkers_of(position)

    # King steps and castling share the king's from-to ids.
    king_targets = KING[king_square] & ~own & ~danger
    rights = position[STATE]
    if checkers == U0:
        if rights & U1 and (occupied | danger) & np.uint64(0x60) == U0:
            king_targets |= np.uint64(0x40)
        if rights & U2 and occupied & np.uint64(0x0E) == U0 and danger & np.uint64(0x0C) == U0:
            king_targets |= np.uint64(0x04)
    movers, allowed = own, ~own
    if checkers & (checkers - U1):
        movers = king
    elif checkers:
        allowed = checkers | BETWEEN[king_square, lowest_square(checkers)]

    # Kind by kind, so that the processor can predict what comes next; the list is in the order of the squares.
    targets[king_square] = king_targets
    men = position[KNIGHTS] & movers
    while men:
        square = lowest_square(men)
        men &= men - U1
        targets[square] = KNIGHT[square] & allowed
    men = position[BISHOPS] & movers
    while men:
        square = lowest_square(men)
        men &= men - U1
        targets[square] = bishop_attacks(square, occupied) & allowed
    men = position[ROOKS] & movers
    while men:
        square = lowest_square(men)
        men &= men - U1
        targets[square] = rook_attacks(square, occupied) & allowed
    men = position[QUEENS] & movers
    while men:
        square = lowest_square(men)
        men &= men - U1
        attacks = bishop_attacks(square, occupied) | rook_attacks(square, occupied)
        targets[square] = attacks & allowed
    men = pawns = position[PAWNS] & movers
    while men:
        bit = men & (~men + U1)
        square = lowest_square(men)
        men ^= bit
        one = bit << U8 & ~occupied
        two = (one & _THIRD_RANK) << U8 & ~occupied
        targets[square] = (one | two | PAWN_UP[square] & their) & allowed
    pinned = pinned_men(position, occupied) & movers
    while pinned:
        square = lowest_square(pinned)
        pinned &= pinned - U1
        targets[square] &= LINE[king_square, square]
    en_passant = en_passant_square(position)
    if en_passant:
        men = pawn_attacks_down(square_bit(en_passant)) & pawns
        while men:
            square = lowest_square(men)
            men &= men - U1
            if en_passant_is_legal(position, square, en_passant):
                targets[square] |= square_bit(en_passant)
    return movers


@inlined
def write_legal(
    position: Positions, movers: np.uint64, targets: NDArray[np.uint64], out: NDArray[np.int16]
) -> int:
    """Number of actions of `movers` to their `targets`, as of `legal_targets`, written to `out` in ascending order."""
    count = write_actions(movers, targets, out)
    # Under-promotions repeat the queen's; their ids follow all the others.
    promoting = position[PAWNS] & movers & _SEVENTH_RANK
    while promoting:
        square = lowest_square(promoting)
        promoting &= promoting - U1
        steps = targets[square]
        while steps:
            first = _UNDERPROMOTION[square, lowest_square(steps) - square - 7]
            for piece in range(3):
                out[count] = first + piece
                count += 1
            steps &= steps - U1
    return count


@inlined
def list_legal(position: Positions, out: NDArray[np.int16]) -> int:
    """`legal_actions_of`, for the inner loops in which the call would cost."""
    targets = carray(stack_words(TARGET_WORDS), TARGET_WORDS, np.uint64)
    movers = legal_targets(position, targets)
    return write_legal(position, movers, targets, out)


@kernel
def legal_actions_of(position: Positions, out: NDArray[np.int16]) -> int:
    """Number of legal actions; their ids are written to `out` (int16 [218]) in ascending order."""
    return list_legal(position, out)


@inlined
def legal_en_passant_target(position: Positions, target: int) -> int:
    """int64: `target` when the mover has a legal en passant capture there, else 0."""
    capturers = pawn_attacks_down(square_bit(target)) & position[PAWNS] & position[OWN]
    while capturers:
        if en_passant_is_legal(position, lowest_square(capturers), target):
            return target
        capturers &= capturers - U1
    return 0


@kernel
def apply(position: Positions, action: int, out: Positions) -> None:
    """Writes the position after a legal `action` to `out`, seen by the other player."""
    start, end = ACTION_FROM[action], ACTION_TO[action]
    moved, landed = square_bit(start), square_bit(end)
    own = position[OWN]
    their = occupied_squares(position) ^ own
    state = position[STATE]
    for kind in range(6):
        out[kind] = position[kind]
    is_pawn = position[PAWNS] & moved != U0
    resets_clock = is_pawn
    if their & landed:
        resets_clock = True
        their ^= landed
        for kind in range(5):
            out[kind] &= ~landed
    if is_pawn:
        out[PAWNS] ^= moved
        if end >= 56:
            kind = ACTION_PROMOTION[action] - 1 if ACTION_PROMOTION[action] else QUEENS
            out[kind] |= landed
        else:
            out[PAWNS] |= landed
            if end == np.int64((state >> EP_SHIFT) & EP_MASK):
                out[PAWNS] ^= square_bit(end - 8)
                their ^= square_bit(end - 8)
    else:
        for kind in range(1, 6):
            if position[kind] & moved:
                out[kind] ^= moved | landed
    own ^= moved | landed
    if position[KINGS] & moved:
        rook = U0
        if end - start == 2:
            rook = np.uint64(0xA0)
        elif start - end == 2:
            rook = np.uint64(0x09)
        out[ROOKS] ^= rook
        own ^= rook

    rights = state & _KEEP_FROM[start] & _KEEP_TO[end] & RIGHTS_MASK
    clock = U0 if resets_clock else ((state >> CLOCK_SHIFT) & WORD_MASK) + U1
    fullmove = (state >> FULLMOVE_SHIFT) & WORD_MASK
    black_moved = state & BLACK_BIT
    fullmove += black_moved >> np.uint64(10)
    for kind in range(6):
        out[kind] = flip_vertical(out[kind])
    out[OWN] = flip_vertical(their)
    new_state = (rights >> U2) | (rights & np.uint64(3)) << U2 | (black_moved ^ BLACK_BIT)
    new_state |= clock << CLOCK_SHIFT | (fullmove & WORD_MASK) << FULLMOVE_SHIFT
    out[STATE] = new_state
    if is_pawn and end - start == 16:
        target = legal_en_passant_target(out, (start + 8) ^ 56)
        out[STATE] = new_state | np.uint64(target) << EP_SHIFT
