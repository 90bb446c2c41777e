"""Short mates against full enumeration with python-chess: nothing claimed is wrong, and forced ones are found."""

from __future__ import annotations

import functools

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.speed.builtin_evaluator import random_play
from chess_env.evaluators.builtin import BuiltinEvaluator
from chess_env.evaluators.short_mates import (
    MOST_AFTER_CHECK,
    MOST_AFTER_MOVE,
    every_quiet_move_leaves_more,
    prove_mates,
)
from chess_env.rules import rules
from chess_env.rules.fen import pack_fens, to_fens


@functools.lru_cache(100_000)
def mates_in(epd: str, n: int, most: int = 218, only_checks: bool = False) -> bool:
    """Whether the side to move mates in at most n moves, by every line of play.

    Args:
        epd: the position.
        n: moves.
        most: replies that the first of two moves may leave.
        only_checks: the first of two moves is a check.
    """
    board = chess.Board(f"{epd} 0 1")
    for move in board.legal_moves:
        board.push(move)
        if board.is_checkmate():
            return True
        forced = board.legal_moves.count() <= most and (board.is_check() or not only_checks)
        if n > 1 and forced and is_mated_in(board.epd(), n - 1):
            return True
        board.pop()
    return False


@functools.lru_cache(100_000)
def is_mated_in(epd: str, n: int, most: int = 218) -> bool:
    """Whether every legal move, of which there is one at least, is answered by a mate in at most n."""
    board = chess.Board(f"{epd} 0 1")
    moves = list(board.legal_moves)
    for move in moves:
        board.push(move)
        if not mates_in(board.epd(), n, most):
            return False
        board.pop()
    return bool(moves)


def proven(fens: list[str], given_cp: int) -> list[int]:
    scores = np.full(len(fens), given_cp, np.int32)
    prove_mates(pack_fens(fens), scores, np.ones(len(fens), np.bool_))
    return scores.tolist()


@pytest.mark.parametrize(
    ("fen", "given_cp", "wanted"),
    [
        ("6k1/5ppp/8/8/8/8/8/K3R3 w - - 0 1", 0, 9_999),
        ("5r1k/6pp/7N/8/8/1Q6/8/K7 w - - 0 1", 2_000, 9_998),  # Qg8+ Rxg8 Nf7
        ("5k2/R7/8/1B6/2B5/8/7P/4K2R w K - 0 1", 0, 9_999),  # by castling
        ("7k/R7/8/8/8/8/8/KR6 b - - 0 1", -2_000, -9_999),
        ("7k/8/8/8/8/8/8/K6R b - - 0 1", -700, -700),
    ],
)
def test_known_mates_are_scored_by_their_moves(fen: str, given_cp: int, wanted: int) -> None:
    assert proven([fen], given_cp) == [wanted]


def test_scores_between_the_bounds_and_of_the_wrong_side_are_left_alone() -> None:
    mating, mated = "6k1/5ppp/8/8/8/8/8/K3R3 w - - 0 1", "7k/R7/8/8/8/8/8/KR6 b - - 0 1"
    assert proven([mating], -450) == [-450]
    assert proven([mated], -450) == [-450]
    assert proven([], 0) == []


@st.composite
def crowded(draw: st.DrawFn) -> chess.Board:
    """A few men around two kings, of which the side not to move has no check to answer."""
    squares = draw(st.lists(st.integers(0, 63), min_size=5, max_size=8, unique=True))
    board = chess.Board(None)
    board.set_piece_at(squares[0], chess.Piece(chess.KING, chess.WHITE))
    board.set_piece_at(squares[1], chess.Piece(chess.KING, chess.BLACK))
    for square in squares[2:]:
        kind = draw(
            st.sampled_from([chess.QUEEN, chess.ROOK, chess.BISHOP, chess.KNIGHT, chess.PAWN])
        )
        if kind == chess.PAWN and not 8 <= square < 56:
            kind = chess.ROOK
        board.set_piece_at(square, chess.Piece(kind, draw(st.integers(0, 3)) > 0))
    board.turn = draw(st.booleans())
    return board


@given(crowded().filter(lambda board: board.is_valid() and not board.is_game_over()))
@settings(max_examples=40)
def test_every_mate_in_one_is_found_and_no_claim_is_wrong(board: chess.Board) -> None:
    fen, epd = board.fen(), board.epd()
    mating = proven([fen], 0)[0]
    assert (mating == 9_999) == mates_in(epd, 1)
    assert mating in (0, 9_999) or (mating == 9_998 and mates_in(epd, 2))
    if mates_in(epd, 2, MOST_AFTER_CHECK, only_checks=True):
        assert mating in (9_999, 9_998)
    lost = proven([fen], -3_000)[0]
    assert (lost == -9_999) == is_mated_in(epd, 1)
    assert lost in (-3_000, -9_999) or (lost == -9_998 and is_mated_in(epd, 2))


def test_quiet_moves_are_passed_over_only_where_each_leaves_many_replies() -> None:
    # In the first the rook may take the knight, and leaves the king three moves.
    first = pack_fens(["7k/8/8/3n4/8/8/8/K2R4 w - - 0 1"])
    positions = np.concatenate([first, random_play(6_000, seed=5)[::24]])
    passed_over = 0
    for text, position in zip(to_fens(positions), positions, strict=True):
        if not every_quiet_move_leaves_more(position, MOST_AFTER_MOVE):
            continue
        passed_over += 1
        board = chess.Board(text)
        for move in list(board.legal_moves):
            if not board.gives_check(move):
                board.push(move)
                assert board.legal_moves.count() > MOST_AFTER_MOVE, (text, move)
                board.pop()
    assert passed_over > len(positions) / 4


def test_what_the_search_knows_of_checks_changes_no_proof() -> None:
    positions = random_play(20_000, seed=6)
    positions = positions[rules.status_batch(positions) == rules.ONGOING]
    scores, forcing, _ = BuiltinEvaluator().search(positions)
    told, asked = scores.copy(), scores.copy()
    proven = prove_mates(positions, told, forcing)
    assert proven == prove_mates(positions, asked, np.ones(len(positions), np.bool_)) > 100
    assert np.array_equal(told, asked) and forcing.mean() < 0.5


@given(crowded().filter(lambda board: board.is_valid() and 0 < board.legal_moves.count() <= 6))
@settings(max_examples=15)
def test_a_hunted_king_with_few_replies_has_every_mate_in_two_found_that_leaves_few(
    board: chess.Board,
) -> None:
    mated = (n for n in (1, 2) if is_mated_in(board.epd(), n, MOST_AFTER_MOVE))
    wanted = next((n - 10_000 for n in mated), -3_000)
    assert proven([board.fen()], -3_000) == [wanted]
