"""The pool of won endings: legal, as described, none of them trivial; drawn by seed."""

from __future__ import annotations

import itertools

import chess
import chess.engine
import numpy as np
import pytest

from chess_env.evaluators import find_stockfish
from chess_env.positions.endings import ENDINGS, draw_endings
from chess_env.rules.fen import to_fens

LETTERS = {"K": chess.KING, "Q": chess.QUEEN, "R": chess.ROOK, "P": chess.PAWN}


def takes_something(board: chess.Board) -> bool:
    return any(board.piece_at(move.to_square) for move in board.legal_moves)


@pytest.mark.parametrize("ending", ENDINGS)
def test_positions_of_the_pool_are_what_they_are_called_and_not_trivial(ending: str) -> None:
    pool = draw_endings(ending, seed=0, count=80)
    assert len(set(to_fens(pool.positions))) == 80
    assert pool.mate_in.min() >= 2
    strong_is_white = 0
    for fen in to_fens(pool.positions):
        board = chess.Board(fen)
        assert board.is_valid(), fen
        strong_is_white += board.turn
        sides = ending.split("-")
        for color, men in zip((board.turn, not board.turn), sides, strict=True):
            ours = sorted(
                board.piece_type_at(square) or 0
                for square in chess.SquareSet(board.occupied_co[color])
            )
            assert ours == sorted(LETTERS[letter] for letter in men), fen
        assert not takes_something(board), fen
        other = board.copy()
        other.turn = not board.turn
        assert not takes_something(other), fen
        for move in board.legal_moves:
            board.push(move)
            assert not board.is_checkmate(), fen
            board.pop()
    assert strong_is_white == 40


def test_a_seed_draws_the_same_positions_and_another_seed_others() -> None:
    one, same, other = (draw_endings("KR-K", seed=seed, count=50) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.positions, same.positions)
    np.testing.assert_array_equal(one.mate_in, same.mate_in)
    assert not np.array_equal(one.positions, other.positions)


@pytest.mark.parametrize(
    ("ending", "count", "message"),
    [
        ("KB-K", 5, "ending is 'KB-K': expected one of KQ-K"),
        ("KQ-K", 0, "count is 0: expected 1 to 80"),
        ("KQ-K", 81, "count is 81: expected 1 to 80"),
    ],
)
def test_a_draw_that_cannot_be_is_an_error(ending: str, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_endings(ending, seed=0, count=count)


@pytest.mark.stockfish
@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_weaker_side_is_mated_against_its_best_defence(ending: str) -> None:
    """Stockfish plays both sides with a search as deep as the pool's, and mates before the fifty-move rule."""
    positions = draw_endings(ending, seed=9, count=3)
    with chess.engine.SimpleEngine.popen_uci(str(find_stockfish())) as engine:
        engine.configure({"Threads": 1, "Hash": 64})
        for fen in to_fens(positions.positions):
            board, game = chess.Board(fen), object()
            strong = board.turn
            for _ in itertools.count():
                if board.is_game_over(claim_draw=True):
                    break
                move = engine.play(board, chess.engine.Limit(nodes=1_000_000), game=game).move
                assert move is not None
                board.push(move)
            assert board.is_checkmate() and board.turn != strong, fen
