"""The action codec: 1,858 ids, both ways, both colours."""

from __future__ import annotations

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chess_env.moves import (
    ACTION_FROM,
    ACTION_PROMOTION,
    ACTION_TO,
    FROM_TO_ACTION,
    NUM_ACTIONS,
    action_to_move,
    legal_actions,
    move_to_action,
)


def test_there_are_1792_from_to_pairs_and_66_underpromotions() -> None:
    assert NUM_ACTIONS == 1858 == len(ACTION_FROM)
    assert int((ACTION_PROMOTION == 0).sum()) == 1792
    assert int((FROM_TO_ACTION >= 0).sum()) == 1792
    triples = set(
        zip(ACTION_FROM.tolist(), ACTION_TO.tolist(), ACTION_PROMOTION.tolist(), strict=True)
    )
    assert len(triples) == NUM_ACTIONS


def test_the_initial_position_has_the_same_actions_for_both_colours() -> None:
    white = chess.Board()
    black = chess.Board("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1")
    assert legal_actions(white).tolist() == legal_actions(black).tolist()
    assert len(legal_actions(white)) == 20


@pytest.mark.parametrize(
    ("fen", "uci"),
    [
        ("8/P7/8/8/8/8/8/K1k5 w - - 0 1", "a7a8n"),
        ("8/P7/8/8/8/8/8/K1k5 w - - 0 1", "a7a8q"),
        ("k1K5/8/8/8/8/8/7p/6N1 b - - 0 1", "h2g1r"),
        ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8c8"),
        ("8/8/8/8/3pP3/8/8/k1K5 b - e3 0 1", "d4e3"),
    ],
)
def test_special_moves_survive_the_round_trip(fen: str, uci: str) -> None:
    board = chess.Board(fen)
    move = chess.Move.from_uci(uci)
    assert move in board.legal_moves
    assert action_to_move(move_to_action(move, board.turn), board) == move


@given(st.integers(0, NUM_ACTIONS - 1), st.booleans())
def test_every_action_decodes_to_a_move_that_encodes_to_it(action: int, turn: bool) -> None:
    board = chess.Board(None)
    board.turn = turn
    if ACTION_PROMOTION[action]:
        start = int(ACTION_FROM[action]) ^ (0 if turn else 56)
        board.set_piece_at(start, chess.Piece(chess.PAWN, turn))
    assert move_to_action(action_to_move(action, board), turn) == action


def test_a_mirrored_position_has_the_same_action_ids() -> None:
    board = chess.Board("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1")
    assert np.array_equal(legal_actions(board), legal_actions(board.mirror()))


@pytest.mark.parametrize("uci", ["a1b4", "0000", "a7a8k"])
def test_a_move_of_no_piece_is_refused_by_name(uci: str) -> None:
    with pytest.raises(ValueError, match="has no action"):
        move_to_action(chess.Move.from_uci(uci), chess.WHITE)


@pytest.mark.parametrize("action", [-1, 1858])
def test_an_action_out_of_range_is_refused_by_number(action: int) -> None:
    with pytest.raises(ValueError, match=str(action)):
        action_to_move(action, chess.Board())
