"""A word is the move that python-chess finds in it, or none; another language is certain or not taken."""

from __future__ import annotations

import chess
import numpy as np
import pytest

from chess_env.moves import move_to_action
from chess_env.rules.fen import parse_fen
from chess_env.rules.san import (
    ALPHABETS,
    ENGLISH,
    encoded,
    letters_of,
    play,
    play_batch,
    read_moves,
)

START = parse_fen(chess.STARTING_FEN)
BUSY = (
    chess.STARTING_FEN,
    "r3k2r/1P4P1/8/3pP3/3Pp3/8/1p4p1/R3K2R w KQkq d6 0 1",
    "r3k2r/1P4P1/8/8/3Pp3/8/1p4p1/R3K2R b KQkq d3 0 1",
    "7k/8/8/8/1Q3Q2/8/8/1Q4K1 w - - 0 1",
    "4k3/8/8/1N3N2/8/1N3N2/8/4K3 w - - 0 1",
)


def played(words: list[str], fen: str = chess.STARTING_FEN, letters: str = ENGLISH) -> list[int]:
    codes = [encoded(word, letters) for word in words]
    assert None not in codes
    return play(parse_fen(fen), [code for code in codes if code is not None])[1].tolist()


@pytest.mark.parametrize("fen", BUSY)
def test_every_legal_move_is_read_as_python_chess_writes_it(fen: str) -> None:
    board = chess.Board(fen)
    for move in board.legal_moves:
        action = [move_to_action(move, board.turn)]
        for word in (board.san(move), board.lan(move), board.uci(move)):
            assert played([word], fen) == action, word
        bare = board.san(move).rstrip("+#").replace("O", "0").replace("=", "")
        assert played([bare], fen) == played([bare + "!?$13"], fen) == action


@pytest.mark.parametrize("fen", BUSY)
def test_a_word_that_python_chess_refuses_is_not_played(fen: str) -> None:
    board = chess.Board(fen)
    squares = [name for name in chess.SQUARE_NAMES if name[0] in "abeg"]
    words = [
        man + at + to for man in ("", *"KQRBN") for at in ("", "b", "x", "5") for to in squares
    ]
    for word in [*words, "O-O", "O-O-O", "e8=K", "b8", "b8=Q", "bxa8=N"]:
        try:
            expected = [move_to_action(board.parse_san(word), board.turn)]
        except ValueError:
            expected = []
        found = played([word], fen)
        # A mark of a capture where nothing is captured makes no word of python-chess wrong.
        assert found == expected or ("x" in word and found == []), word


@pytest.mark.parametrize(
    "word",
    [
        "Sf3x",
        "f33",
        "e4e",
        "Nf9",
        "NNf3f4",
        "[e4]",
        "e2-",
        "1-0",
        "O-",
        "nf3",
        "e4,e5",
        "P@e4",
        "5254",
    ],
)
def test_a_word_that_is_only_in_part_a_move_is_none(word: str) -> None:
    assert encoded(word, ENGLISH) is None


def test_figurines_are_men_in_every_language() -> None:
    words = ["♘f3", "♞f6", "♙e4", "♞xe4"]
    assert played(words) == played(["Nf3", "Nf6", "e4", "Nxe4"])
    assert not letters_of("♘f3") and letters_of("Sf3") == {"S"}


GAME = [
    "e4",
    "e5",
    "Nf3",
    "Nc6",
    "Bb5",
    "a6",
    "Bxc6",
    "dxc6",
    "O-O",
    "Qd3",
    "cxd3",
    "Bg4",
    "Kh1",
    "Bxf3",
    "gxf3",
    "h5",
]


@pytest.mark.parametrize("letters", ALPHABETS)
def test_a_whole_game_is_read_in_the_letters_of_its_language(letters: str) -> None:
    other = dict(zip(ENGLISH.split(), letters.split(), strict=False))
    words = [word if word[0] == "O" else "".join(other.get(a, a) for a in word) for word in GAME]
    if len(letters.split()) == 6:
        words = ["Pe4", *words[1:]]
    found = read_moves(START, words)
    assert found.actions.tolist() == played(GAME) and found.letters not in (None, ENGLISH)
    # With a move that is legal in none, what English made of a letter is not certain either.
    cut = read_moves(START, [*words[:10], "c6", *words[10:]])
    assert len(cut.actions) <= 2 and len(cut.positions) == len(cut.actions)


def test_one_word_of_another_language_ends_an_english_game() -> None:
    found = read_moves(START, [*GAME[:5], "Sf6", *GAME[6:]])
    assert np.array_equal(found.actions, played(GAME[:5])) and found.letters == ENGLISH


def test_words_that_two_languages_read_differently_are_not_taken() -> None:
    # A rook or a king of Romanian, French or Hungarian men: both go there, and nothing says who did.
    fen = "8/8/8/4k3/8/8/4PRK1/8 w - - 0 1"
    assert read_moves(parse_fen(fen), ["Rf3", "Td5"]).actions.tolist() == []
    assert read_moves(START, ["Pf3", "Pf6"]).letters is None


def test_lines_played_at_once_are_those_played_one_by_one() -> None:
    lines = [["e2e4", "e7e5", "g1f3"], ["e4", "e5", "Ke3", "a6"], [], ["d4"]]
    codes = [[encoded(word, ENGLISH) or 0 for word in line] for line in lines]
    moves = np.array([code for line in codes for code in line])
    lengths = np.array([len(line) for line in lines])
    actions, numbers = play_batch(np.stack([START] * 4), moves, lengths)
    assert numbers.tolist() == [3, 2, 0, 1]
    one_by_one = [play(START, line)[1].tolist() for line in codes]
    assert actions.tolist() == [*one_by_one[0], *one_by_one[1], -1, -1, *one_by_one[3]]
