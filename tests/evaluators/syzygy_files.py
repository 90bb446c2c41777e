"""Real Syzygy files of king and rook against king, written without compression from the project's own tables."""

from __future__ import annotations

import struct
from pathlib import Path

import chess
import chess.syzygy
import numpy as np
from chess.syzygy import TRIANGLE, WdlTable

from chess_env.evaluators.endgame_tables import exact_scores

NUM_INDICES = 31_332
_BITS_OF_A_PART = 9  # 512 positions to an entry of the index and to a block
_KING, _ROOK, _BLACK_KING = 6, 4, 14


def write_rook_ending(folder: Path) -> None:
    """Writes KRvK.rtbw and KRvK.rtbz.

    The first holds for White to move one value, a win, and for Black to move a loss or a draw; the second
    the moves to mate, White to move, which are the moves to the next capture too.
    """
    white, black = _by_index(white_moves=True), _by_index(white_moves=False)
    lost = (black < -9_000).astype(np.int64)
    men = bytes([_KING | _KING << 4, _ROOK | _ROOK << 4, _BLACK_KING | _BLACK_KING << 4])
    header = chess.Board.tbw_magic + b"\x01\x00" + men + b"\x00"
    one_value = bytes([0x80, 4])
    _write(folder / "KRvK.rtbw", header + one_value, lost, values=(2, 0), bits=1)
    moves = np.clip(10_000 - white, 1, 16) - 1
    header = chess.Board.tbz_magic + b"\x00\x00" + bytes([_KING, _ROOK, _BLACK_KING]) + b"\x00"
    _write(folder / "KRvK.rtbz", header, moves, values=tuple(range(16)), bits=4)


def _by_index(white_moves: bool) -> np.ndarray:
    """int32 [NUM_INDICES]: the exact score by the index that python-chess computes for a position."""
    table = WdlTable("KRvK.rtbw")
    indices, squares = [], []
    kings = [s for s in range(64) if s & 7 < 4 and s < 32 and s >> 3 <= s & 7]
    for king in kings:
        for rook in set(range(64)) - {king}:
            for weak in set(range(64)) - {king, rook}:
                assert TRIANGLE[king] >= 0
                indices.append(table.encode_piece([3, 0, 0], [king, rook, weak], [1, 0, 0]))
                squares.append((king, rook, weak))
    bits = np.uint64(1) << np.array(squares, np.uint64)
    packed = np.zeros((len(bits), 8), np.uint64)
    packed[:, 3], packed[:, 5] = bits[:, 1], bits[:, 0] | bits[:, 2]
    packed[:, 6] = bits[:, 0] | bits[:, 1] if white_moves else bits[:, 2]
    if not white_moves:  # the side to move sees the board from its own edge
        packed[:, :7] = packed[:, :7].byteswap()
        packed[:, 7] = np.uint64(1 << 10)
    scores = np.zeros(NUM_INDICES, np.int32)
    scores[indices] = exact_scores(packed)
    return scores


def _write(
    path: Path, start: bytes, symbols: np.ndarray, values: tuple[int, ...], bits: int
) -> None:
    """Writes symbols of equally long codes, each of which stands for one value."""
    part = 1 << _BITS_OF_A_PART
    num_parts = -(-len(symbols) // part)
    padded = np.zeros(num_parts * part, np.int64)
    padded[: len(symbols)] = symbols
    block_bits = (part * bits // 8).bit_length() - 1
    pairs = struct.pack(
        "<BBBBIBBHH", 0, block_bits, _BITS_OF_A_PART, 0, num_parts, bits, bits, 0, len(values)
    )
    pairs += b"".join(bytes([value, 0xF0, 0xFF]) for value in values) + b"\x00" * (len(values) & 1)
    index = b"".join(struct.pack("<IH", number, part // 2) for number in range(num_parts))
    sizes = struct.pack("<H", part - 1) * num_parts
    data = start + pairs
    data += b"\x00" * (len(data) & 1) + index + sizes
    data += b"\x00" * (-len(data) % 64)
    codes = (padded[:, None] >> np.arange(bits - 1, -1, -1)) & 1
    data += np.packbits(codes.astype(np.uint8).reshape(-1)).tobytes()
    data += b"\x00" * ((16 - len(data)) % 64)
    path.write_bytes(data)
