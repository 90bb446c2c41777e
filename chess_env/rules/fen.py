"""FEN in and out of packed positions. Every FEN is checked here, before any kernel or engine sees it."""

from __future__ import annotations

from collections.abc import Sequence

import chess
import numpy as np
from numpy.typing import NDArray

from chess_env.jit import kernel
from chess_env.rules.bitboards import U0, U1, U2, square_bit
from chess_env.rules.movegen import MAX_LEGAL
from chess_env.rules.packed import (
    BLACK_BIT,
    CLOCK_SHIFT,
    EP_MASK,
    EP_SHIFT,
    FULLMOVE_SHIFT,
    OWN,
    STATE,
    WORD_MASK,
    Positions,
)
from chess_env.rules.rules import as_batch

_ECHO_CHARS = 200
_LONGEST_FEN = 120  # 71 placement + 1 + 4 + 2 + two counters and spaces, with room
LARGEST_COUNTER = 32767
"""Half of what a packed position holds: a game that goes on cannot overflow."""

_LETTERS = np.frombuffer(b"PNBRQKpnbrqk", np.uint8).copy()
_DIGITS_MAX = 5


def _fail(fen: object, reason: str) -> ValueError:
    shown = ascii(fen)  # so that the limit holds however it is printed
    if len(shown) > _ECHO_CHARS:
        shown = shown[:_ECHO_CHARS] + "..."
    return ValueError(
        f"illegal FEN {shown}: {reason}; give a legal chess position such as {chess.STARTING_FEN!r}"
    )


_STATUS_REASONS = {
    chess.STATUS_NO_WHITE_KING: "White has no king",
    chess.STATUS_NO_BLACK_KING: "Black has no king",
    chess.STATUS_TOO_MANY_KINGS: "a side has more than one king",
    chess.STATUS_TOO_MANY_WHITE_PAWNS: "White has more than 8 pawns",
    chess.STATUS_TOO_MANY_BLACK_PAWNS: "Black has more than 8 pawns",
    chess.STATUS_PAWNS_ON_BACKRANK: "a pawn stands on the first or last rank",
    chess.STATUS_TOO_MANY_WHITE_PIECES: "White has more than 16 men",
    chess.STATUS_TOO_MANY_BLACK_PIECES: "Black has more than 16 men",
    chess.STATUS_BAD_CASTLING_RIGHTS: "castling rights without king and rook on their squares",
    chess.STATUS_INVALID_EP_SQUARE: "the en passant square does not follow from a double pawn step",
    chess.STATUS_OPPOSITE_CHECK: "the side not to move is in check (its king could be captured)",
    chess.STATUS_EMPTY: "the board is empty",
    chess.STATUS_RACE_CHECK: "impossible check",
    chess.STATUS_RACE_OVER: "impossible position of a variant",
    chess.STATUS_RACE_MATERIAL: "impossible material of a variant",
    chess.STATUS_TOO_MANY_CHECKERS: "more than two men give check",
    chess.STATUS_IMPOSSIBLE_CHECK: "no last move can have given this check",
}


def _promoted_men(board: chess.Board, color: chess.Color) -> int:
    spare = 0
    for piece, initial in ((chess.KNIGHT, 2), (chess.BISHOP, 2), (chess.ROOK, 2), (chess.QUEEN, 1)):
        spare += max(0, len(board.pieces(piece, color)) - initial)
    return spare


def _check_board(board: chess.Board, source: object) -> None:
    status = board.status()
    if status != chess.STATUS_VALID:
        reasons = [text for flag, text in _STATUS_REASONS.items() if status & flag]
        raise _fail(source, "; ".join(reasons) or str(status))
    for color in chess.COLORS:
        pawns = len(board.pieces(chess.PAWN, color))
        if _promoted_men(board, color) > 8 - pawns:
            raise _fail(
                source, f"{chess.COLOR_NAMES[color]} has more promoted men than missing pawns"
            )
    if board.legal_moves.count() > MAX_LEGAL:
        raise _fail(source, f"more than {MAX_LEGAL} legal moves")
    if not (board.halfmove_clock <= LARGEST_COUNTER and board.fullmove_number <= LARGEST_COUNTER):
        raise _fail(source, f"a move counter exceeds {LARGEST_COUNTER}")


def board_from_fen(fen: str) -> chess.Board:
    """The python-chess board of a legal FEN (4 to 6 fields; missing clocks mean `0 1`).

    Raises:
        ValueError: not a string, over-long, malformed, or not a legal chess position; the message
            names the value (at most 200 characters of it), the reason, and the remedy.
    """
    if not isinstance(fen, str):
        raise _fail(fen, f"expected a string, got {type(fen).__name__}")
    if len(fen) > _LONGEST_FEN:
        raise _fail(fen, f"{len(fen)} characters, a FEN has at most {_LONGEST_FEN}")
    if not (fen.isascii() and fen.isprintable()):
        raise _fail(fen, "a FEN is one line of printable ASCII characters")
    fields = fen.split(" ")
    if not 4 <= len(fields) <= 6 or "" in fields:
        raise _fail(fen, "expected 4 to 6 fields separated by single spaces")
    if not all(field.isdigit() for field in fields[4:]):
        raise _fail(fen, "the move counters must be whole numbers")
    # `Board` drops impossible rights silently, so the letters are compared with what it kept.
    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise _fail(fen, str(error)[:_ECHO_CHARS]) from None
    _check_board(board, fen)
    return board


def pack_board(board: chess.Board) -> Positions:
    """uint64 [8]: the packed position of a python-chess board (its move stack is not looked at)."""
    flip = 0 if board.turn else 56
    own, their = board.turn, not board.turn
    bitboards = [board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings]
    bitboards.append(board.occupied_co[own])
    if flip:
        bitboards = [chess.flip_vertical(bitboard) for bitboard in bitboards]
    state = (
        board.has_kingside_castling_rights(own)
        | board.has_queenside_castling_rights(own) << 1
        | board.has_kingside_castling_rights(their) << 2
        | board.has_queenside_castling_rights(their) << 3
    )
    if board.ep_square is not None and board.has_legal_en_passant():
        state |= (board.ep_square ^ flip) << 4
    state |= (not board.turn) << 10 | board.halfmove_clock << 16 | board.fullmove_number << 32
    return np.array([*bitboards, state], np.uint64)


def parse_fen(fen: str) -> Positions:
    """uint64 [8]: the packed position of a legal FEN.

    Raises:
        ValueError: see `board_from_fen`.
    """
    return pack_board(board_from_fen(fen))


def pack_fens(fens: Sequence[str]) -> Positions:
    """uint64 [N, 8]: the packed positions of N legal FENs. Raises ValueError as `board_from_fen` does."""
    return np.array([parse_fen(fen) for fen in fens], np.uint64).reshape(len(fens), 8)


@kernel
def _write_number(number: int, text: NDArray[np.uint8], at: int) -> int:
    digits = np.empty(_DIGITS_MAX, np.uint8)
    count = 0
    while True:
        digits[count] = 48 + number % 10
        count += 1
        number //= 10
        if number == 0:
            break
    for i in range(count):
        text[at + i] = digits[count - 1 - i]
    return at + count


@kernel
def _write_fen(position: Positions, clocks: bool, text: NDArray[np.uint8]) -> int:
    """Number of bytes of the FEN written to `text`."""
    state = position[STATE]
    black = state & BLACK_BIT != U0
    at = 0
    for row in range(8):
        # FEN runs from rank 8 down; a Black-to-move board is stored with its ranks reversed.
        rank = row if black else 7 - row
        gap = 0
        for file in range(8):
            bit = square_bit(8 * rank + file)
            kind = 6
            for candidate in range(6):
                if position[candidate] & bit:
                    kind = candidate
            if kind == 6:
                gap += 1
                continue
            if gap:
                text[at] = 48 + gap
                at += 1
                gap = 0
            is_own = position[OWN] & bit != U0
            text[at] = _LETTERS[kind if is_own != black else kind + 6]
            at += 1
        if gap:
            text[at] = 48 + gap
            at += 1
        text[at] = 47 if row < 7 else 32
        at += 1
    text[at] = 98 if black else 119
    text[at + 1] = 32
    at += 2
    rights = state & np.uint64(15)
    if rights == U0:
        text[at] = 45
        at += 1
    if black:
        rights = rights >> U2 | (rights & np.uint64(3)) << U2
    for bit_index in range(4):
        if rights >> np.uint64(bit_index) & U1:
            text[at] = (75, 81, 107, 113)[bit_index]
            at += 1
    text[at] = 32
    at += 1
    target = np.int64((state >> EP_SHIFT) & EP_MASK)
    if target:
        text[at] = 97 + target % 8
        text[at + 1] = 51 if black else 54
        at += 2
    else:
        text[at] = 45
        at += 1
    text[at] = 32
    at += 1
    clock = np.int64((state >> CLOCK_SHIFT) & WORD_MASK) if clocks else 0
    fullmove = np.int64((state >> FULLMOVE_SHIFT) & WORD_MASK) if clocks else 1
    at = _write_number(clock, text, at)
    text[at] = 32
    return _write_number(fullmove, text, at + 1)


@kernel
def _write_fens(
    positions: Positions, clocks: bool, text: NDArray[np.uint8], lengths: NDArray[np.int64]
) -> None:
    for i in range(positions.shape[0]):
        lengths[i] = _write_fen(positions[i], clocks, text[i])


def _fen_bytes(positions: Positions, clocks: bool) -> list[bytes]:
    positions = as_batch(positions)
    text = np.empty((len(positions), _LONGEST_FEN), np.uint8)
    lengths = np.empty(len(positions), np.int64)
    _write_fens(positions, clocks, text, lengths)
    joined = text.tobytes()
    starts = range(0, len(joined), _LONGEST_FEN)
    return [
        joined[start : start + length]
        for start, length in zip(starts, lengths.tolist(), strict=True)
    ]


def to_fens(positions: Positions) -> list[str]:
    """The FEN of each packed position (uint64 [N, 8]); an en passant square only when a capture is legal."""
    return [fen.decode() for fen in _fen_bytes(positions, clocks=True)]


def to_fen(position: Positions) -> str:
    """The FEN of one packed position (uint64 [8]); an en passant square only when a capture is legal."""
    return to_fens(position[None])[0]


def engine_fens(positions: Positions) -> list[bytes]:
    """The canonical FEN of each position for an engine: legal en passant only, clocks `0 1`.

    Equal for all positions that differ only in their clocks, so that a score is a pure function of
    the position.
    """
    return _fen_bytes(positions, clocks=False)
