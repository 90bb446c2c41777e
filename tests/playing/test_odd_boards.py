"""Boards that no game reaches and a GUI may set up: the facts of their moves are python-chess's."""

from __future__ import annotations

import chess
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from algorithms.playing.position import GamePosition, board_of_gui, facts_of
from chess_env.moves import action_to_move, legal_actions
from chess_env.rules.fen import pack_board
from tests.move_facts.facts_oracle import move_facts
from tests.playing.test_policy_moves import ODD

LAST_RANKS = chess.BB_RANK_1 | chess.BB_RANK_8


@st.composite
def odd_boards(draw: st.DrawFn) -> chess.Board:
    """Men of any kinds and numbers, pawns on the six middle ranks, castling rights and en passant squares at random."""
    board = chess.Board(None)
    men = draw(st.sampled_from(["....PNBRQpnbrq", "..PPpp.Rr", "QQQq..", "PNBRQpnbrq"]))
    for square, symbol in enumerate(draw(st.lists(st.sampled_from(men), min_size=64, max_size=64))):
        if symbol != "." and not (symbol in "Pp" and chess.BB_SQUARES[square] & LAST_RANKS):
            board.set_piece_at(square, chess.Piece.from_symbol(symbol))
    kings = draw(st.permutations(range(64)))[:2] if draw(st.booleans()) else (chess.E1, chess.E8)
    for square, color in zip(kings, chess.COLORS, strict=True):
        board.set_piece_at(square, chess.Piece(chess.KING, color))
    board.turn = draw(st.booleans())
    # The side to move could take no king: what attacks it goes.
    while attackers := board.attackers(board.turn, kings[board.turn]) - {kings[not board.turn]}:
        for square in attackers:
            board.remove_piece_at(square)
    rights = draw(st.sampled_from(["-", "KQkq", "Kq"]))
    target = draw(st.sampled_from("abcdefgh")) + ("6" if board.turn else "3")
    fen = f"{board.board_fen()} {'w' if board.turn else 'b'} {rights} {target} 99 80"
    try:
        return board_of_gui(fen)
    except ValueError:
        assume(False)  # the kings stand side by side
        raise


def check(board: chess.Board) -> None:
    actions = legal_actions(board)
    found = facts_of(GamePosition(board, 0, pack_board(board)[None]), actions)[0]
    for action, facts in zip(actions, found, strict=True):
        move = action_to_move(int(action), board)
        assert np.array_equal(facts, move_facts(board, move, 0)), move


@pytest.mark.parametrize("fen", ODD)
def test_the_facts_on_an_odd_board_are_those_of_python_chess(fen: str) -> None:
    check(board_of_gui(fen))


@given(odd_boards())
@settings(max_examples=30)
def test_the_facts_on_any_board_are_those_of_python_chess(board: chess.Board) -> None:
    check(board)
