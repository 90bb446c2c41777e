"""Forced mates by exhaustive search, against a search with python-chess."""

from __future__ import annotations

import chess
import pytest

from chess_env.moves import move_to_action
from chess_env.rules.fen import parse_fen
from chess_env.rules.mates import mates_within


def lost(board: chess.Board, moves: int) -> bool:
    """Whether the side to move is mated within so many moves of its opponent."""
    if board.is_checkmate():
        return True
    replies = list(board.legal_moves)
    if moves == 0 or not replies:
        return False
    return all(wins(board, reply, moves) for reply in replies)


def wins(board: chess.Board, reply: chess.Move, moves: int) -> bool:
    board.push(reply)
    found = any(after(board, move, moves - 1) for move in list(board.legal_moves))
    board.pop()
    return found


def after(board: chess.Board, move: chess.Move, moves: int) -> bool:
    board.push(move)
    found = lost(board, moves)
    board.pop()
    return found


@pytest.mark.parametrize(
    ("fen", "moves"),
    [
        ("6k1/5ppp/8/8/8/8/8/R3K3 w Q - 0 1", 1),
        ("7k/8/5K2/8/8/8/8/6Q1 w - - 0 1", 1),
        ("7k/8/5K2/8/8/8/8/6Q1 w - - 0 1", 2),
        ("7k/5K2/8/6P1/8/8/8/8 b - - 0 1", 2),
        ("kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1", 2),  # Morphy's, 1.Ra6!
        ("8/8/8/8/8/2k5/1r6/K7 b - - 0 1", 2),
        ("5k2/8/4KQ2/8/8/8/8/8 b - - 0 1", 1),
    ],
)
def test_every_move_is_judged_as_by_a_search_with_python_chess(fen: str, moves: int) -> None:
    board = chess.Board(fen)
    for move in board.legal_moves:
        found = mates_within(parse_fen(fen), move_to_action(move, board.turn), moves)
        assert found == after(board.copy(), move, moves - 1), (fen, move)


def test_morphys_key_move_is_the_only_one() -> None:
    fen = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"
    board = chess.Board(fen)
    right = [
        move.uci()
        for move in board.legal_moves
        if mates_within(parse_fen(fen), move_to_action(move, board.turn), 2)
    ]
    assert right == ["a1a6"]


@pytest.mark.parametrize("moves", [0, 4])
def test_other_numbers_of_moves_are_refused(moves: int) -> None:
    with pytest.raises(ValueError, match=f"moves is {moves}: expected 1 to 3"):
        mates_within(parse_fen(chess.STARTING_FEN), 0, moves)
