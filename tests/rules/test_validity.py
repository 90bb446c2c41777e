"""Which packed positions the kernels may be given: against python-chess, on games and on damaged positions."""

from __future__ import annotations

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chess_env.rules.fen import pack_board, parse_fen, to_fen
from chess_env.rules.movegen import MAX_LEGAL
from chess_env.rules.packed import Positions
from chess_env.rules.rules import random_walk
from chess_env.rules.validity import playable_batch

UNSEEN = chess.STATUS_TOO_MANY_CHECKERS | chess.STATUS_IMPOSSIBLE_CHECK


def allowed(position: Positions) -> bool:
    """What python-chess and the limits of a FEN say of a position."""
    try:
        board = chess.Board(to_fen(position))
    except ValueError:
        return False
    for color in chess.COLORS:
        counts = [len(board.pieces(kind, color)) for kind in chess.PIECE_TYPES]
        spare = [max(0, n - initial) for n, initial in zip(counts[1:5], (2, 2, 2, 1), strict=True)]
        if sum(spare) > 8 - counts[0]:
            return False
    if board.status() & ~UNSEEN or board.legal_moves.count() > MAX_LEGAL:
        return False
    return np.array_equal(pack_board(board), position)


def played(seed: int, plies: int) -> Positions:
    """A copy of the last position of a random game of so many plies, or fewer."""
    start = parse_fen(chess.STARTING_FEN)
    return random_walk(start, plies, np.random.default_rng(seed))[-1].copy()


def test_positions_of_games_are_playable() -> None:
    start, rng = parse_fen(chess.STARTING_FEN), np.random.default_rng(0)
    for _ in range(50):
        assert playable_batch(random_walk(start, 200, rng)).all()


@given(
    st.integers(0, 10_000),
    st.integers(0, 120),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 63)), min_size=1, max_size=4),
)
def test_a_position_with_flipped_bits_is_playable_where_python_chess_says_so(
    seed: int, plies: int, flips: list[tuple[int, int]]
) -> None:
    position = played(seed, plies)
    for word, bit in flips:
        position[word] ^= np.uint64(1 << bit)
    assert playable_batch(position[None])[0] == allowed(position)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8))
def test_random_words_are_playable_where_python_chess_says_so(words: list[int]) -> None:
    position = np.array(words, np.uint64)
    assert playable_batch(position[None])[0] == allowed(position)


@pytest.mark.parametrize(
    "fen",
    [
        "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",  # 218 moves, the most
        "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3",
        "k7/8/8/8/8/8/8/K7 w - - 0 1",
        "4k3/8/8/8/8/8/8/4K2R w K - 0 1",
        "k7/2N5/8/8/8/8/8/K3R2R b - - 0 1",
        "k7/1r6/8/8/8/8/8/K3R2R b - - 0 1",
    ],
)
def test_a_special_position_is_playable(fen: str) -> None:
    assert playable_batch(parse_fen(fen)[None])[0]


WORDS = ["pawns", "knights", "bishops", "rooks", "queens", "kings", "own", "state"]


def changed(fen: str, **words: int) -> Positions:
    position = parse_fen(fen)
    for name, value in words.items():
        position[WORDS.index(name)] = value
    return position


KINGS = "4k3/8/8/8/8/8/8/4K3 w - - 0 1"


@pytest.mark.parametrize(
    "position",
    [
        changed(KINGS, kings=1 << 4),  # one king
        changed(KINGS, kings=0, own=0),
        changed(KINGS, kings=1 << 4 | 1 << 12 | 1 << 60, own=1 << 4 | 1 << 12),
        changed(KINGS, kings=1 << 4 | 1 << 12, own=1 << 4),  # side by side
        changed(KINGS, pawns=1 << 4),  # two men on a square
        changed(KINGS, pawns=1 << 0, own=1 << 4 | 1),  # on the first rank
        changed(KINGS, own=1 << 4 | 1 << 20),  # a man of no kind
        changed(KINGS, rooks=1 << 61, own=1 << 4 | 1 << 61),  # could take the king
        changed(KINGS, queens=0xFFFF00000000, own=1 << 4 | 0xFFFF00000000),  # sixteen queens
        changed(KINGS, state=1 | 1 << 32),  # a right without its rook
        changed(KINGS, state=40 << 4 | 1 << 32),  # en passant without a pawn
        changed(KINGS, state=1 << 11 | 1 << 32),  # a bit that means nothing
        changed(KINGS, state=0),  # move number 0
    ],
)
def test_an_impossible_position_is_not_playable(position: Positions) -> None:
    assert not playable_batch(position[None])[0] and not allowed(position)
