"""Many FENs at once, compiled: some 2 microseconds each, where one FEN through python-chess takes 100.

The compiled reader knows the usual spelling alone. What it does not know goes through `parse_fen`, which decides and
gives the reason. So a batch holds the positions that `parse_fen` gives, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import announced, inlined, kernel
from chess_env.rules.bitboards import U0, U1, flip_vertical, popcount, square_bit
from chess_env.rules.fen import LARGEST_COUNTER, parse_fen
from chess_env.rules.movegen import checkers_of, legal_en_passant_target
from chess_env.rules.packed import (
    BLACK_BIT,
    CLOCK_SHIFT,
    EP_SHIFT,
    FULLMOVE_SHIFT,
    OWN,
    PAWNS,
    STATE,
    Positions,
    occupied_squares,
)
from chess_env.rules.validity import LEGAL_ROOM, is_playable

_SPACE, _DASH, _SLASH, _ZERO = ord(" "), ord("-"), ord("/"), ord("0")
_WHITE, _BLACK = ord("w"), ord("b")
_RIGHTS = np.frombuffer(b"KQkq", np.uint8).copy()
_KIND = np.full(256, -1, np.int64)
_KIND[list(b"PNBRQK")] = _KIND[list(b"pnbrqk")] = np.arange(6)


@inlined
def _read_men(text: NDArray[np.uint8], at: int, end: int, position: Positions) -> int:
    """Where the field of the men ends, White's men then being `OWN`; -1 where it is not understood."""
    for word in range(8):
        position[word] = U0
    rank, file, after_digit = 7, 0, False
    while at < end and text[at] != _SPACE:
        sign = int(text[at])
        at += 1
        if sign == _SLASH:
            if file != 8 or rank == 0:
                return -1
            rank, file, after_digit = rank - 1, 0, False
        elif _ZERO < sign <= _ZERO + 8:
            file += sign - _ZERO
            if after_digit or file > 8:
                return -1
            after_digit = True
        else:
            if _KIND[sign] < 0 or file > 7:
                return -1
            bit = square_bit(8 * rank + file)
            position[_KIND[sign]] |= bit
            if sign < 97:  # a capital letter
                position[OWN] |= bit
            file += 1
            after_digit = False
    return at if rank == 0 and file == 8 else -1


@inlined
def _read_number(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """(the number that begins at `at`, where it ends); the number is -1 where there is none or it is too large."""
    number, begin = 0, at
    while at < end and _ZERO <= text[at] <= _ZERO + 9 and number <= LARGEST_COUNTER:
        number = 10 * number + int(text[at]) - _ZERO
        at += 1
    return (number if at > begin and number <= LARGEST_COUNTER else -1), at


@inlined
def _read_fen(
    text: NDArray[np.uint8], at: int, end: int, position: Positions, room: NDArray[np.int16]
) -> bool:
    """Whether text[at:end] is a FEN in the usual spelling, of a position without doubt; fills `position`."""
    at = _read_men(text, at, end, position)
    if at < 0 or at + 6 > end:  # " w - -" is the shortest rest
        return False
    turn = int(text[at + 1])
    if (turn != _WHITE and turn != _BLACK) or text[at + 2] != _SPACE:
        return False
    at += 3
    rights, last = U0, -1
    if text[at] == _DASH:
        at += 1
    else:
        while at < end and text[at] != _SPACE:
            found = -1
            for place in range(4):
                if text[at] == _RIGHTS[place]:
                    found = place
            if found <= last:
                return False
            rights |= U1 << np.uint64(found)
            last = found
            at += 1
        if last < 0:
            return False
    if at + 2 > end or text[at] != _SPACE:
        return False
    at += 1
    target = 0
    if text[at] == _DASH:
        at += 1
    else:
        file = int(text[at]) - 97
        rank = 54 if turn == _WHITE else 51  # "6", or "3"
        if at + 2 > end or not 0 <= file < 8 or text[at + 1] != rank:
            return False
        target = 40 + file
        at += 2
    clock, fullmove = 0, 1
    for counter in range(2):
        if at < end:
            if text[at] != _SPACE:
                return False
            number, at = _read_number(text, at + 1, end)
            if number < 0:
                return False
            if counter == 0:
                clock = number
            else:
                fullmove = number
    if at != end:
        return False

    state = rights
    if turn == _BLACK:
        position[OWN] ^= occupied_squares(position)
        for word in range(7):
            position[word] = flip_vertical(position[word])
        state = rights >> np.uint64(2) | (rights & np.uint64(3)) << np.uint64(2) | BLACK_BIT
    state |= np.uint64(clock) << CLOCK_SHIFT | np.uint64(fullmove) << FULLMOVE_SHIFT
    position[STATE] = state
    if not is_playable(position, room):
        return False
    checkers = popcount(checkers_of(position))
    if checkers > 1 or (checkers and target):
        return False  # whether a last move can have given the check is looked at one by one
    if target:
        their = occupied_squares(position) & ~position[OWN]
        free = ~occupied_squares(position)
        stepped = position[PAWNS] & their & square_bit(target - 8)
        if not (stepped and free & square_bit(target) and free & square_bit(target + 8)):
            return False
        position[STATE] = state | np.uint64(legal_en_passant_target(position, target)) << EP_SHIFT
        return is_playable(position, room)
    return True


@kernel
def _read_fens(
    text: NDArray[np.uint8],
    ends: NDArray[np.int64],
    positions: Positions,
    known: NDArray[np.bool_],
) -> None:
    room = np.empty(LEGAL_ROOM, np.int16)
    first = 0
    for i in range(len(ends)):
        known[i] = _read_fen(text, first, ends[i], positions[i], room)
        first = ends[i]


def read_fens(fens: Sequence[str]) -> tuple[Positions, dict[int, str]]:
    """(uint64 [N, 8] the packed positions of N FENs, {index: what is wrong} of those that are none).

    What `parse_fen` raises is what is wrong; the row of such a FEN means nothing.
    """
    ends = np.cumsum(np.fromiter(map(len, fens), np.int64, len(fens)))
    # One byte a character, whatever it is: "?" is in no FEN.
    text = np.frombuffer("".join(fens).encode("ascii", "replace"), np.uint8)
    positions, known = np.empty((len(fens), 8), np.uint64), np.empty(len(fens), np.bool_)
    with announced("reading FENs", _read_fens):
        _read_fens(text, ends, positions, known)
    wrong = {}
    for index in np.flatnonzero(~known).tolist():
        try:
            positions[index] = parse_fen(fens[index])
        except ValueError as error:
            wrong[index] = str(error)
    return positions, wrong
