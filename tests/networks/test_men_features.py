"""What a network reads of the men: all of them, the one that moves and the one it takes, against python-chess."""

from __future__ import annotations

import chess
import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms.networks.move_net import MenFeatures, MoveHead
from algorithms.testing.network_contract import states
from chess_env.moves import ACTION_FROM, ACTION_PROMOTION, ACTION_TO, action_to_move
from chess_env.observation import encode_batch
from chess_env.rules.fen import pack_fens
from chess_env.rules.rules import legal_actions_batch

POSITIONS = {
    "castling": "r3k2r/pppq1ppp/2npbn2/4p3/1bB1P3/2NPBN2/PPPQ1PPP/R3K2R w KQkq - 0 1",
    "promotions": "1n2k3/P1P5/8/8/8/8/1p4p1/R3K3 w - - 0 1",
    "en_passant": "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1",
}
NOBODY = 3 * 6 * 64
TABLES = (ACTION_FROM, ACTION_TO, ACTION_PROMOTION)


def both_sides(name: str) -> tuple[chess.Board, chess.Board]:
    board = chess.Board(POSITIONS[name])
    return board, board.mirror()


def kind_and_square(board: chess.Board, square: chess.Square, kind: int) -> int:
    seen = square if board.turn == chess.WHITE else chess.square_mirror(square)
    return (kind - 1) * 64 + seen


def expected(men: MenFeatures, board: chess.Board, move: chess.Move) -> Tensor:
    """The same, from python-chess; a pawn taken en passant does not stand where its taker arrives."""
    kind, taken = board.piece_type_at(move.from_square), board.piece_type_at(move.to_square)
    assert kind is not None
    total = men.moved[kind_and_square(board, move.from_square, kind)]
    arrives = move.promotion or kind
    total = total + men.moved[6 * 64 + kind_and_square(board, move.to_square, arrives)]
    at = NOBODY if not taken else 2 * 6 * 64 + kind_and_square(board, move.to_square, taken)
    total = total + men.moved[at]
    for square, man in board.piece_map().items():
        side = 0 if man.color == board.turn else 6 * 64
        total = total + men.board.weight[:, side + kind_and_square(board, square, man.piece_type)]
    return total


@pytest.mark.parametrize("name", POSITIONS)
def test_every_move_has_the_features_that_python_chess_gives_it(name: str) -> None:
    torch.manual_seed(0)
    men, boards = MenFeatures(5), both_sides(name)
    positions = pack_fens([board.fen() for board in boards])
    legal_ids, counts = legal_actions_batch(positions)
    row = torch.repeat_interleave(torch.arange(2), torch.from_numpy(counts).long())
    actions = legal_ids[legal_ids >= 0]
    squares = (torch.from_numpy(table[actions].astype(np.int64)) for table in TABLES)
    found = men(torch.from_numpy(encode_batch(positions)), row, *squares, torch.float32)
    for at, (board, action) in enumerate(zip(row.tolist(), actions.tolist(), strict=True)):
        move = action_to_move(action, boards[board])
        torch.testing.assert_close(found[at], expected(men, boards[board], move))
    assert len(actions) == sum(board.legal_moves.count() for board in boards)


def test_planes_that_are_no_position_are_answered() -> None:
    men = MenFeatures(3)
    at = torch.tensor([0, 63])
    for planes in (torch.zeros(1, 20, 8, 8), torch.full((1, 20, 8, 8), 255)):
        row = torch.zeros(2, dtype=torch.int64)
        found = men(planes.to(torch.uint8), row, at, at.flip(0), row, torch.float32)
        assert found.isfinite().all()


def test_the_head_puts_them_in_place_of_the_actions_features_and_adds_a_second_layer() -> None:
    torch.manual_seed(1)
    head, (obs, legal_ids, facts) = MoveHead(6, 10, reads_men=True), states()
    assert head.men is not None and head.deeper is not None
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(0.0, 0.5)
    squares = torch.randn(len(legal_ids), 64, 6)
    found = head(squares, legal_ids, facts, torch.float32, obs)
    for row, ids in enumerate(legal_ids.tolist()):
        for slot, action in enumerate(ids):
            if action < 0:
                continue
            origin, target, promotion = (torch.tensor([int(table[action])]) for table in TABLES)
            men = head.men(obs, torch.tensor([row]), origin, target, promotion, torch.float32)
            start, end = squares[row, origin[0]], squares[row, target[0]]
            features = torch.relu(
                head.from_features(start)
                + head.to_features(end)
                + head.board_features(squares[row].mean(0))
                + men[0]
                + head.fact_features(facts[row, slot] * head.fact_scale)
            )
            logit = head.score(features)[0] + head.deeper(features)[0]
            logit = logit + head.from_vector(start) @ head.to_vector(end) * 5**-0.5
            logit = logit + head.action_bias[action] + head.promotion_bias[promotion[0]]
            torch.testing.assert_close(found.logits[row, slot], logit, rtol=1e-4, atol=1e-4)
