"""Many FENs at once give what `parse_fen` gives one by one, whatever is wrong with them."""

from __future__ import annotations

import chess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chess_env.rules import fen_batch
from chess_env.rules.fen import parse_fen
from chess_env.rules.fen_batch import read_fens

SIGNS = "KQRBNPkqrbnp12345678/ wb-abcdefgh36é0"
SEEDS = (
    chess.STARTING_FEN,
    "r3k2r/1P4P1/8/3pP3/3Pp3/8/1p4p1/R3K2R w KQkq d6 0 1",
    "r3k2r/1P4P1/8/8/3Pp3/8/1p4p1/R3K2R b Kq d3 12 40",
    "8/8/8/8/8/4k3/8/4K2R w K -",
    "4k3/8/8/8/8/8/4r3/4K3 w - - 99",
)


def agree(fens: list[str]) -> int:
    """How many of these are FENs, after every one was compared with `parse_fen`."""
    positions, wrong = read_fens(fens)
    read = 0
    for row, fen in enumerate(fens):
        try:
            expected = parse_fen(fen)
        except ValueError as error:
            assert wrong[row] == str(error)
            continue
        assert row not in wrong
        assert np.array_equal(positions[row], expected), fen
        read += 1
    return read


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_positions_of_random_games_are_read_as_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    board, fens = chess.Board(), []
    for _ in range(60):
        moves = list(board.legal_moves)
        if not moves:
            break
        board.push(moves[rng.integers(len(moves))])
        fens += [board.fen(), board.fen(en_passant="fen")]
    assert agree(fens) == len(fens)


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 80), st.sampled_from(SIGNS), st.booleans()), max_size=3),
)
def test_a_fen_with_changed_signs_is_read_or_refused_as_one_by_one(
    fen: str, changes: list[tuple[int, str, bool]]
) -> None:
    for at, sign, replaces in changes:
        fen = fen[:at] + sign + fen[at + replaces :]
    agree([SEEDS[0], fen, SEEDS[1]])


@pytest.mark.parametrize(
    "fen",
    [
        "",
        "8",
        "8/8/8/8/8/8/8/8 w - - 0 1",
        "4k3/8/8/8/8/8/8/4K3 w - e6 0 1",
        "4k3/8/8/8/8/8/8/4K3 w - - 0 99999",
        "4k3/8/8/8/8/8/8/4K3 w - - 0 0",
        "4k3/8/8/8/8/8/8/4K3 w - - 0 1 ",
        "4k3/8/8/8/8/8/8/4K2R w KK - 0 1",
        "4k3/8/8/8/8/8/8/4K2R w kK - 0 1",
        "4k3/8/8/8/8/5n2/3n4/4K2r w - - 0 1",
        "44/8/8/8/8/8/4k3/7K w - - 0 1",
        "\ud800",
    ],
)
def test_odd_fens_are_judged_as_one_by_one(fen: str) -> None:
    agree([SEEDS[0], fen, SEEDS[1]])


def test_usual_fens_do_not_go_through_python_chess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fen_batch, "parse_fen", lambda fen: pytest.fail(fen))
    assert read_fens(SEEDS)[1] == {}


def test_no_fens_are_no_positions() -> None:
    positions, wrong = read_fens([])
    assert positions.shape == (0, 8) and wrong == {}
