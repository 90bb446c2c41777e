"""The names of openings: each line can be played, and a game is named by the last position that one ends in."""

from __future__ import annotations

import chess
import pytest

from algorithms.board.openings import LINES, opening_of
from tests.board.conftest import Board
from tests.board.served import answer


def played(sans: str, root: str = chess.STARTING_FEN) -> chess.Board:
    board = chess.Board(root)
    for san in sans.split():
        board.push_san(san)
    return board


def test_each_line_is_legal_and_ends_in_a_position_of_its_own_that_has_its_name() -> None:
    ends = set()
    for line in LINES:
        name, _, moves = line.partition(": ")
        board = played(moves)
        assert opening_of(board) == name and moves, line
        ends.add(board.epd(en_passant="legal"))
    assert len(ends) == len(LINES) >= 60


@pytest.mark.parametrize(
    ("sans", "name"),
    [
        ("", ""),
        ("a3 a6", ""),
        ("d4 e6 e4", "A40 Queen's Pawn Game"),
        ("d4 e6 e4 d5", "C00 French Defence"),
        ("d4 Nf6 c4 e6 Nf3 d5", "D30 Queen's Gambit Declined"),
        ("c4 e6 d4 d5", "D30 Queen's Gambit Declined"),
        ("Nf3 Nc6 e4 e5 Bc4 Bc5", "C50 Giuoco Piano"),
        ("e4 e5 Nf3 Nc6 Bc4 Bc5 c3 Nf6", "C50 Giuoco Piano"),
        ("e4 c5 Nf3 Nc6 d4", "B20 Sicilian Defence"),
    ],
)
def test_a_game_has_the_name_of_the_last_position_that_is_known_in_whatever_order(
    sans: str, name: str
) -> None:
    assert opening_of(played(sans)) == name


def test_a_game_from_a_position_that_was_set_up_has_no_name() -> None:
    start = chess.Board()
    start.remove_piece_at(chess.A1)
    start.castling_rights &= ~chess.BB_A1
    assert opening_of(played("e4 e5", start.fen())) == ""
    assert opening_of(played("Nf6", played("e4 e5 Nf3").fen())) == ""


def test_the_page_is_told_the_name_at_the_place_it_looks_at(board: Board) -> None:
    moves = ["e2e4", "c7c6", "d2d4", "d7d5", "e4e5"]

    def named(**asked: object) -> str:
        found = answer(board.client, "/api/view", policy=board.other, **asked)
        return str(found["position"]["opening"])

    assert named(moves=moves) == "B12 Caro-Kann Defence, Advance Variation"
    assert named(moves=moves, at=2) == named(moves=moves, at=4) == "B10 Caro-Kann Defence"
    assert named(moves=moves, at=0) == "" == named(fen=played("e4").fen(), moves=["e7e5"])
    assert named(fen=chess.STARTING_FEN, moves=moves[:1]) == "B00 King's Pawn Opening"
