"""The tables of three men against python-chess, published counts and positions solved by hand."""

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chess_env.evaluators.endgame_tables import (
    DRAWN,
    NO_POSITION,
    PAWN,
    QUEEN,
    ROOK,
    STRONGER,
    WEAKER,
    exact_scores,
    find_three_men,
    tables,
)
from chess_env.rules.fen import pack_fens, parse_fen

PIECES = {QUEEN: chess.QUEEN, ROOK: chess.ROOK, PAWN: chess.PAWN}


def score(fen: str) -> int:
    packed = pack_fens([fen])
    assert find_three_men(packed).all()
    return int(exact_scores(packed)[0])


def expected(board: chess.Board) -> int:
    """The score of a position as its rules and its children's table entries have it, one ply deep."""
    if board.is_checkmate():
        return -10_000
    if board.is_stalemate() or board.is_insufficient_material():
        return 0
    best = -10_001
    for move in board.legal_moves:
        board.push(move)
        if board.is_checkmate():
            child = -10_000
        elif board.is_game_over() or board.is_insufficient_material():
            child = 0
        elif board.bishops | board.knights:
            child = 0  # underpromotion: one minor piece mates nobody
        else:
            child = score(board.fen())
        board.pop()
        # A mate of the child in n moves of its winner is one of n + 1 for the winner who moves now.
        mine = -child
        best = max(best, mine - 1 if mine > 0 else mine)
    return best


@st.composite
def three_men(draw: st.DrawFn) -> chess.Board:
    man = draw(st.sampled_from([chess.QUEEN, chess.ROOK, chess.PAWN]))
    squares = draw(st.lists(st.integers(0, 63), min_size=3, max_size=3, unique=True))
    if man == chess.PAWN:
        squares[1] = draw(st.integers(8, 55).filter(lambda s: s not in (squares[0], squares[2])))
    color = draw(st.booleans())
    board = chess.Board(None)
    board.set_piece_at(squares[0], chess.Piece(chess.KING, color))
    board.set_piece_at(squares[1], chess.Piece(man, color))
    board.set_piece_at(squares[2], chess.Piece(chess.KING, not color))
    board.turn = draw(st.booleans())
    return board


@given(three_men().filter(lambda board: board.is_valid() and not board.is_game_over()))
@settings(max_examples=150)
def test_an_entry_follows_from_the_entries_after_python_chess_s_moves(board: chess.Board) -> None:
    assert score(board.fen()) == expected(board)


@pytest.mark.parametrize(("man", "longest"), [(QUEEN, 10), (ROOK, 16), (PAWN, 28)])
def test_the_longest_mates_have_their_published_lengths(man: int, longest: int) -> None:
    """https://www.chessprogramming.org/Endgame_Tablebases."""
    for side in (STRONGER, WEAKER):
        entries = tables()[man, side]
        assert entries[entries != NO_POSITION].max() - 1 == longest


def test_a_queen_or_a_rook_that_may_move_first_always_wins() -> None:
    for man in (QUEEN, ROOK):
        assert (tables()[man, STRONGER] != DRAWN).all()


@pytest.mark.parametrize(
    ("fen", "wanted"),
    [
        ("7k/8/6K1/8/8/8/8/1Q6 w - - 0 1", 9_999),  # Qb8
        ("8/8/8/8/8/6k1/r7/7K w - - 0 1", -9_999),  # Kg1 is forced, then Ra1
        ("8/4k3/8/4K3/4P3/8/8/8 w - - 0 1", 0),  # Black has the opposition
        ("k7/8/8/8/8/8/P7/K7 b - - 0 1", 0),  # a rook's pawn, and the king is in the corner
    ],
)
def test_positions_solved_by_hand_have_their_score(fen: str, wanted: int) -> None:
    assert score(fen) == wanted


def test_other_men_and_the_right_to_castle_are_not_claimed() -> None:
    others = [
        chess.STARTING_FEN,
        "8/8/8/3k4/8/8/8/3KB3 w - - 0 1",
        "8/8/8/3k4/8/8/PP6/3K4 w - - 0 1",
        "8/8/8/3k4/8/8/8/R3K3 w Q - 0 1",
    ]
    assert not find_three_men(np.stack([parse_fen(fen) for fen in others])).any()
