"""Games as PGN: what is written is read again, and a damaged text is read as far as it goes."""

from __future__ import annotations

import io
import time

import chess.pgn
import pytest

from tests.board.conftest import Board
from tests.board.served import answer, refusal

PAWN = "8/P6k/8/8/8/8/7K/8 w - - 0 1"
SCHOLAR = ["e2e4", "e7e5", "d1h5", "b8c6", "f1c4", "g8f6", "h5f7"]


def test_a_saved_game_is_a_game_for_python_chess_with_result_and_reason(board: Board) -> None:
    found = answer(
        board.client,
        "/api/pgn/write",
        moves=SCHOLAR,
        white='Me "the best"]\n[X "y"',
        black="example",
    )
    game = chess.pgn.read_game(io.StringIO(found["pgn"]))
    assert game is not None and game.errors == []
    assert [move.uci() for move in game.mainline_moves()] == SCHOLAR
    assert game.headers["Result"] == "1-0" and game.headers["Termination"] == "checkmate"
    assert game.headers["White"] == 'Me \\"the best\\"]?[X \\"y\\"' and "X" not in game.headers
    assert answer(board.client, "/api/pgn/read", pgn=found["pgn"])["moves"] == SCHOLAR


def test_a_game_from_a_position_keeps_it_and_its_promotion(board: Board) -> None:
    asked = {"fen": PAWN, "moves": ["a7a8n", "h7g6"]}
    text = answer(board.client, "/api/pgn/write", **asked, white="a", black="b")["pgn"]
    found = answer(board.client, "/api/pgn/read", pgn=text)
    assert found == {**asked, "note": ""}


def test_variations_and_comments_are_left_out(board: Board) -> None:
    text = "1. e4 {<script>} (1. d4 d5 (1... Nf6)) e5 $1 2. Nf3 *\n\n1. c4 *"
    assert answer(board.client, "/api/pgn/read", pgn=text)["moves"] == ["e2e4", "e7e5", "g1f3"]


def test_a_game_with_an_illegal_move_is_shown_up_to_there(board: Board) -> None:
    found = answer(board.client, "/api/pgn/read", pgn="1. e4 e5 2. Ke3 Nc6 *")
    assert found["moves"] == ["e2e4", "e7e5"] and "follows ply 2 cannot" in found["note"]


def test_a_null_move_ends_what_is_shown(board: Board) -> None:
    found = answer(board.client, "/api/pgn/read", pgn="1. e4 -- 2. d4 *")
    assert found["moves"] == ["e2e4"] and "follows ply 1 cannot" in found["note"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no move in this text"),
        ("see the game of yesterday", "no move in this text"),
        ('[Event "a"]\n\n*\n', "no move in this text"),
        ("<script>alert(1)</script>", "no move in this text"),
        ('[Variant "Atomic"]\n\n1. e4 *', "another variant"),
        ('[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n*', "illegal FEN"),
        ('[FEN "<b>"]\n\n1. e4 *', "illegal FEN"),
    ],
)
def test_a_text_without_a_game_of_chess_is_refused(board: Board, text: str, said: str) -> None:
    assert said in refusal(board.client, "/api/pgn/read", 400, pgn=text)


def test_a_long_game_is_cut_and_says_so(board: Board) -> None:
    moves = " ".join(["Nf3 Nf6 Ng1 Ng8"] * 300)
    found = answer(board.client, "/api/pgn/read", pgn=moves)
    assert len(found["moves"]) == 1000 and found["note"] == "The first 1,000 plies are shown."


@pytest.mark.parametrize(
    "text",
    [
        'Round 1, board 2\n\n[Event "a"]\n\n1. e4 e5 *\n',
        "Hello! My game: 1. e4 e5 *",
        '[Event "empty"]\n\n*\n\n[Event "b"]\n\n1. e4 e5 1/2-1/2\n\n[Event "c"]\n\n1. d4 *\n',
        '\ufeff[Event "a"]\r\n\r\n1.e4 e5 *\r\n',
        '[Event "a"]\r\r1.e4 e5 *\r',
        '[White "a \\\\ b"]\n1. e4 {x} $1 (1. d4) e5',
        "e2e4 e7e5",
        "1. ♙e4 ♟e5",
    ],
)
def test_what_stands_around_the_first_move_does_not_hide_the_game(board: Board, text: str) -> None:
    found = answer(board.client, "/api/pgn/read", pgn=text)
    assert (found["moves"], found["note"]) == (["e2e4", "e7e5"], "")


def test_a_word_that_is_understood_in_part_is_no_move(board: Board) -> None:
    found = answer(board.client, "/api/pgn/read", pgn="1. e4 e5 2. Qf3x Nc6 *")
    assert found["moves"] == ["e2e4", "e7e5"] and "follows ply 2 cannot" in found["note"]
    last = answer(board.client, "/api/pgn/read", pgn="1. e4 e5 2. Qf3x")
    assert last["moves"] == ["e2e4", "e7e5"] and "follows ply 2 cannot" in last["note"]
    german = answer(board.client, "/api/pgn/read", pgn="1. Sf3 Sf6 2. Lxe4 *")
    assert german["moves"] in ([], ["g1f3", "g8f6"])


def test_rights_that_a_board_editor_leaves_are_dropped(board: Board) -> None:
    text = '[FEN "4k3/8/8/8/8/8/4P3/4K3 w KQ - 0 1"]\n\n1. e4 *'
    found = answer(board.client, "/api/pgn/read", pgn=text)
    assert (found["fen"], found["moves"]) == ("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", ["e2e4"])


def test_lines_of_a_saved_game_are_short_whatever_the_names(board: Board) -> None:
    moves = ["g1f3", "g8f6", "f3g1", "f6g8"] * 100
    text = answer(board.client, "/api/pgn/write", moves=moves, white="\\" * 200, black='"' * 200)[
        "pgn"
    ]
    assert max(map(len, text.splitlines())) <= 255
    assert answer(board.client, "/api/pgn/read", pgn=text)["moves"] == moves


@pytest.mark.parametrize(
    "text",
    ["Nf3 Nf6 Ng1 Ng8 " * 12_000, "1. e4 " + "(1. d4 " * 25_000, '[Event "a"]\n\n*\n\n' * 10_000],
)
def test_a_text_of_190_kilobytes_is_read_within_a_second(board: Board, text: str) -> None:
    began = time.process_time()
    board.client.post("/api/pgn/read", json={"pgn": text})
    assert time.process_time() - began < 1.0  # it took 3.8 s, in which nobody else was answered
