"""The position that a GUI sends with `position`, and what its history tells of it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Sequence

import chess
import numpy as np

from algorithms.playing.uci.protocol import shown
from chess_env.games.reference_game import identity
from chess_env.rules.fen import board_from_fen, pack_board
from chess_env.rules.packed import Positions


@dataclasses.dataclass(frozen=True)
class GamePosition:
    """A position within a game.

    Attributes:
        board: without its moves; not to be changed.
        repetitions: earlier occurrences of it since the root.
        line: uint64 `[H, 8]`, packed: the positions of the game since the last capture or pawn move, or
            since the root, this one last; None where only this one is known.
    """

    board: chess.Board
    repetitions: int
    line: Positions | None = dataclasses.field(default=None, compare=False)


def reached(fen: str | None, moves: Sequence[str]) -> GamePosition:
    """The position after `moves` from the root.

    A game that a draw rule has ended goes on: the GUI decides whether to stop.

    Args:
        fen: the root; None for the initial position.
        moves: in UCI's notation, castling as the king's two-square step.

    Raises:
        ValueError: the FEN is not legal, or a move is not; the message names it.
    """
    board = chess.Board() if fen is None else board_from_fen(fen)
    occurrences: Counter[Hashable] = Counter([identity(board)])
    for number, text in enumerate(moves, 1):
        move = _legal_move(board, text)
        if move is None:
            raise ValueError(f"move {number}, {shown(text)}, is not legal in {board.fen()!r}")
        board.push(move)
        occurrences[identity(board)] += 1
    repetitions = occurrences[identity(board)] - 1
    return GamePosition(board.copy(stack=False), repetitions, _line(board))


def _line(board: chess.Board) -> Positions:
    """uint64 `[H, 8]`, see `GamePosition`; takes the board back to the first of them."""
    line = [pack_board(board)]
    for _ in range(min(board.halfmove_clock, len(board.move_stack))):
        board.pop()
        line.append(pack_board(board))
    return np.array(line[::-1])


def legal_moves(board: chess.Board, texts: Sequence[str]) -> tuple[chess.Move, ...]:
    """Those of `texts` that are legal moves of `board`."""
    moves = (_legal_move(board, text) for text in texts)
    return tuple(move for move in moves if move is not None)


def _legal_move(board: chess.Board, text: str) -> chess.Move | None:
    try:
        move = board.parse_uci(text.lower())  # some GUIs write e7e8Q
    except ValueError:
        return None
    return move or None  # python-chess takes the null move 0000 for legal
