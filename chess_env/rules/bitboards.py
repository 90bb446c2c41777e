"""Bitboard arithmetic: three machine instructions, attack tables, and slider attacks.

Square 8 * rank + file is bit 8 * rank + file (a1 = bit 0, h8 = bit 63). Sliders use hyperbola
quintessence (https://www.chessprogramming.org/Hyperbola_Quintessence) for files and diagonals and a
512-byte table for ranks: no table here outgrows the first-level cache except BETWEEN (32 kB).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from chess_env.jit import inlined

U0 = np.uint64(0)
U1 = np.uint64(1)
U2 = np.uint64(2)
U7 = np.uint64(7)
U8 = np.uint64(8)
U9 = np.uint64(9)
U16 = np.uint64(16)
U32 = np.uint64(32)
NOT_FILE_A = np.uint64(0xFEFEFEFEFEFEFEFE)
NOT_FILE_H = np.uint64(0x7F7F7F7F7F7F7F7F)
NOT_FILES_AB = np.uint64(0xFCFCFCFCFCFCFCFC)
NOT_FILES_GH = np.uint64(0x3F3F3F3F3F3F3F3F)
LIGHT_SQUARES = np.uint64(0x55AA55AA55AA55AA)
DARK_SQUARES = np.uint64(0xAA55AA55AA55AA55)


@intrinsic
def popcount(typing_context: Any, bits: Any) -> Any:
    """int64: number of set bits."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), codegen


@intrinsic
def lowest_square(typing_context: Any, bits: Any) -> Any:
    """int64: index of the lowest set bit (64 when there is none)."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero_is_undefined = context.get_constant(types.boolean, False)
        return builder.cttz(arguments[0], zero_is_undefined)

    return types.int64(types.uint64), codegen


@intrinsic
def flip_vertical(typing_context: Any, bits: Any) -> Any:
    """uint64: the board seen from the other side (ranks reversed, files kept)."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), codegen


def _steps(offsets: tuple[tuple[int, int], ...]) -> np.ndarray:
    table = np.zeros(64, np.uint64)
    for square in range(64):
        for d_rank, d_file in offsets:
            rank, file = square // 8 + d_rank, square % 8 + d_file
            if 0 <= rank < 8 and 0 <= file < 8:
                table[square] |= np.uint64(1 << (8 * rank + file))
    return table


def _line_masks(d_rank: int, d_file: int) -> np.ndarray:
    offsets = tuple((k * d_rank, k * d_file) for k in range(-7, 8) if k)
    return _steps(offsets)


KNIGHT = _steps(((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)))
_AROUND = tuple((r, f) for r in (-1, 0, 1) for f in (-1, 0, 1) if r or f)
KING = _steps(_AROUND)
PAWN_UP = _steps(((1, 1), (1, -1)))  # squares attacked by a pawn that moves up the board
FILE_LINE = _line_masks(1, 0)
DIAGONAL = _line_masks(1, 1)
ANTIDIAGONAL = _line_masks(1, -1)


def _rank_attacks() -> np.ndarray:
    """uint8 [8, 64]: attacks on a rank by file and by the occupancy of its six inner squares."""
    table = np.zeros((8, 64), np.uint8)
    for file in range(8):
        for inner in range(64):
            occupied = inner << 1
            attacks = 0
            for direction in (1, -1):
                target = file + direction
                while 0 <= target < 8:
                    attacks |= 1 << target
                    if occupied >> target & 1:
                        break
                    target += direction
            table[file, inner] = attacks
    return table


RANK_ATTACKS = _rank_attacks()


def _between_and_line() -> tuple[np.ndarray, np.ndarray]:
    """uint64 [64, 64] twice: squares strictly between two aligned squares; the whole line through them."""
    between = np.zeros((64, 64), np.uint64)
    line = np.zeros((64, 64), np.uint64)
    for d_rank, d_file in _AROUND:
        masks = _line_masks(d_rank, d_file)
        for start in range(64):
            passed = 0
            rank, file = start // 8 + d_rank, start % 8 + d_file
            whole = int(masks[start]) | 1 << start
            while 0 <= rank < 8 and 0 <= file < 8:
                end = 8 * rank + file
                between[start, end] = np.uint64(passed)
                line[start, end] = np.uint64(whole)
                passed |= 1 << end
                rank, file = rank + d_rank, file + d_file
    return between, line


BETWEEN, LINE = _between_and_line()


@inlined
def square_bit(square: int) -> np.uint64:
    """uint64: the bitboard of one square."""
    return U1 << np.uint64(square)


@inlined
def _along(occupied: np.uint64, bit: np.uint64, line: np.uint64) -> np.uint64:
    blockers = occupied & line
    upward = blockers - (bit << U1)
    downward = flip_vertical(flip_vertical(blockers) - (flip_vertical(bit) << U1))
    return (upward ^ downward) & line


@inlined
def bishop_attacks(square: int, occupied: np.uint64) -> np.uint64:
    """uint64: squares a bishop attacks, the first blocker in each direction included."""
    bit = square_bit(square)
    return _along(occupied, bit, DIAGONAL[square]) | _along(occupied, bit, ANTIDIAGONAL[square])


@inlined
def rook_attacks(square: int, occupied: np.uint64) -> np.uint64:
    """uint64: squares a rook attacks, the first blocker in each direction included."""
    rank_start = np.uint64(square & 56)
    inner = np.int64((occupied >> (rank_start + U1)) & np.uint64(63))
    along_rank = np.uint64(RANK_ATTACKS[square & 7, inner]) << rank_start
    return _along(occupied, square_bit(square), FILE_LINE[square]) | along_rank


@inlined
def knight_set_attacks(knights: np.uint64) -> np.uint64:
    """uint64: squares attacked by any of the knights."""
    one = (knights << U1) & NOT_FILE_A | (knights >> U1) & NOT_FILE_H
    two = (knights << U2) & NOT_FILES_AB | (knights >> U2) & NOT_FILES_GH
    return (one << np.uint64(16)) | (one >> np.uint64(16)) | (two << U8) | (two >> U8)


@inlined
def pawn_attacks_up(pawns: np.uint64) -> np.uint64:
    """uint64: squares attacked by pawns that move up the board (the mover's)."""
    return (pawns & NOT_FILE_A) << U7 | (pawns & NOT_FILE_H) << U9


@inlined
def pawn_attacks_down(pawns: np.uint64) -> np.uint64:
    """uint64: squares attacked by pawns that move down the board (the opponent's)."""
    return (pawns & NOT_FILE_H) >> U7 | (pawns & NOT_FILE_A) >> U9


@inlined
def fill_up(bits: np.uint64) -> np.uint64:
    """uint64: the squares themselves and all above them on their files."""
    bits |= bits << U8
    bits |= bits << U16
    return bits | bits << U32


@inlined
def fill_down(bits: np.uint64) -> np.uint64:
    """uint64: the squares themselves and all below them on their files."""
    bits |= bits >> U8
    bits |= bits >> U16
    return bits | bits >> U32


@inlined
def beside(bits: np.uint64) -> np.uint64:
    """uint64: the squares to the left and right of these."""
    return (bits & NOT_FILE_H) << U1 | (bits & NOT_FILE_A) >> U1
