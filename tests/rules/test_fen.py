"""FEN in and out: what is refused, and how."""

from __future__ import annotations

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chess_env.rules.fen import board_from_fen, engine_fens, pack_fens, parse_fen, to_fen, to_fens

ILLEGAL = {
    "": "4 to 6 fields",
    "junk": "4 to 6 fields",
    "8/8/8/8/8/8/8/8 w - - 0 1": "king",
    "4k3/8/8/8/8/8/8/8 w - - 0 1": "White has no king",
    "kk6/8/8/8/8/8/8/K7 w - - 0 1": "more than one king",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP w KQkq - 0 1": "8 rows",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNRR w KQkq - 0 1": "columns",
    "4k3/8/8/8/8/8/8/P3K3 w - - 0 1": "pawn stands on the first or last rank",
    "4k3/8/8/8/8/8/4R3/4K3 w - - 0 1": "king could be captured",
    "4k3/8/8/8/8/8/8/4K3 w KQkq - 0 1": "castling",
    "4k3/8/8/8/8/8/8/4K3 w - e6 0 1": "en passant",
    "4k3/8/8/8/8/8/8/4K3 x - - 0 1": "turn",
    "4k3/8/8/8/8/8/8/4K3 w - - x 1": "whole numbers",
    "4k3/8/8/8/8/8/8/4K3 w - - 0 99999": "32767",
    "QQQQQQQQ/QQQQQQQ1/8/8/8/8/8/K1k5 w - - 0 1": "",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1\nsetoption name Hash value 1": "printable",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1" + " " * 100_000: "at most",
    "8/\ufffd" * 700: "at most",
}


@pytest.mark.parametrize("text", ILLEGAL)
def test_an_illegal_fen_is_refused_with_value_reason_and_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="illegal FEN") as caught:
        parse_fen(text)
    message = str(caught.value)
    assert ILLEGAL[text] in message
    assert "give a legal chess position" in message
    assert message.isascii() and len(message) < 600


def test_castling_rights_are_never_dropped_in_silence() -> None:
    with pytest.raises(ValueError, match="castling"):
        parse_fen("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBN1 w KQkq - 0 1")


@given(st.text(max_size=130))
def test_no_text_crashes_the_parser(text: str) -> None:
    try:
        board = board_from_fen(text)
    except ValueError as error:
        assert "illegal FEN" in str(error)
    else:
        assert board.is_valid()


def test_not_a_string_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a string, got int"):
        parse_fen(5)  # type: ignore[arg-type]


def test_clocks_are_optional_and_kept() -> None:
    assert to_fen(parse_fen("4k3/8/8/8/8/8/8/4K2R w K -")) == "4k3/8/8/8/8/8/8/4K2R w K - 0 1"
    assert to_fen(parse_fen("4k3/8/8/8/8/8/8/4K2R b K - 42 1234")).endswith("42 1234")


def test_the_engine_sees_neither_clocks_nor_an_illegal_en_passant() -> None:
    positions = pack_fens(
        ["4k3/8/8/8/4P3/8/8/4K3 b - e3 0 7", "4k3/8/8/8/3pP3/8/8/4K3 b - e3 31 77"]
    )
    assert engine_fens(positions) == [
        b"4k3/8/8/8/4P3/8/8/4K3 b - - 0 1",
        b"4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1",
    ]


def test_an_empty_batch_stays_empty() -> None:
    assert pack_fens([]).shape == (0, 8)
    assert to_fens(np.empty((0, 8), np.uint64)) == []


def test_the_packed_initial_position_is_what_the_layout_says() -> None:
    position = parse_fen(chess.STARTING_FEN)
    assert int(position[0]) == 0x00FF00000000FF00  # pawns
    assert int(position[6]) == 0xFFFF  # the mover's men
    assert int(position[7]) == 0b1111 | 1 << 32  # all rights, White to move, move 1
