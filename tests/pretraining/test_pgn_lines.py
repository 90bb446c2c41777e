"""A game's moves are its own: what stands behind a result, in a comment or around games is not."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest
import zstandard

from algorithms.pretraining import pgn
from algorithms.pretraining.pgn import GameCounts, GameLines, read_positions
from chess_env.moves import action_to_move
from chess_env.positions.text_files import TextFile
from chess_env.rules.fen import board_from_fen, to_fen


def read(path: Path) -> tuple[list[str], dict[str, int]]:
    """(moves in SAN of each game that gave any, counts that are not 0)."""
    counts, games = GameCounts(), []
    file = TextFile(path, "games")
    for positions, played in read_positions(file, min_rating=0, skip_plies=0, counts=counts):
        moves = []
        for position, action in zip(positions, played.tolist(), strict=True):
            board = board_from_fen(to_fen(position))
            moves.append(chess.Board(board.fen()).san(action_to_move(action, board)))
        if moves:
            games.append(" ".join(moves))
    file.close()
    return games, {name: count for name, count in vars(counts).items() if count}


@pytest.fixture(autouse=True)
def nothing_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgn, "heldout_hashes", frozenset)


HEADED = '[Event "a"]\n[White "b"]\n\n'
WHOLE = HEADED + "1. Nf3 Nf6 1-0\n\n"


@pytest.mark.parametrize(
    ("text", "games", "counts"),
    [
        ("1. e4 e5 2. Nf3 Nc6 1-0\n1. d4 d6 2. c4 Nf6 0-1\n",
         ["e4 e5 Nf3 Nc6", "d4 d6 c4 Nf6"], {"games": 2, "used": 2}),
        ("e4 e5 1-0\nd4 d6 *\n", ["e4 e5", "d4 d6"], {"games": 2, "used": 2}),
        ("1. e4 e5\n1. d4 d6 0-1\n", ["e4", "d4 d6"], {"games": 2, "used": 2, "truncated": 1}),
        (HEADED + "1. e4 e5 1-0 1. d4 d5 0-1\n\n" + WHOLE,
         ["e4 e5", "Nf3 Nf6"], {"games": 2, "used": 2, "after_result": 1}),
        (HEADED + "1. e4 e5 1-0 1. d4 Kxh8 0-1\n",
         ["e4 e5"], {"games": 1, "used": 1, "after_result": 1}),
        (WHOLE + "1. d4 d5 0-1\n\n" + WHOLE,
         ["Nf3 Nf6", "d4 d5", "Nf3 Nf6"], {"games": 3, "used": 3}),
        (HEADED + "1. e4 e5\n\n1. d4 d5 0-1\n\n" + WHOLE,
         ["e4", "d4 d5", "Nf3 Nf6"], {"games": 3, "used": 3, "truncated": 1}),
        (HEADED + "1. e4 e5 1-0 {White\nwins [1-0]} ; so\n{ this is said\n1. d4 }\n" + WHOLE,
         ["e4 e5", "Nf3 Nf6"], {"games": 2, "used": 2}),
        ("1. e4 e5 1-0\n2. Nf3 Nc6 0-1\n" + WHOLE,
         ["e4 e5", "Nf3 Nf6"], {"games": 3, "used": 2, "bad_starts": 1}),
        ("12. Nf3 Nc6 13. e4 1-0\n\n" + WHOLE,
         ["Nf3 Nf6"], {"games": 2, "used": 1, "bad_starts": 1}),
    ],
)  # fmt: skip
def test_moves_behind_a_result_are_a_game_of_their_own_or_counted_and_never_part_of_it(
    tmp_path: Path, text: str, games: list[str], counts: dict[str, int]
) -> None:
    path = tmp_path / "g.pgn"
    path.write_text(text)
    assert read(path) == (games, counts)


@pytest.mark.parametrize(
    "moves",
    [
        "1. e4 (1. d4 d5 1-0\n1. c4) e5 2. Nf3 1-0\n",  # a variation with a result, and one behind
        "1. e4 { White\n1. d4 wins: 1-0\n1. c4 } 1... e5 2. Nf3 1-0\n",
        "{ a word before }\n1. e4\n1... e5 2. Nf3 1-0\n",
        "1. e4 e5 ; better is { 1-0\n2. Nf3 1-0\n",
        "1. e4 {a ; b} e5 {c} {d\n} 2. Nf3 { an end } 1-0\n",
        "1. e4 e5 { a comment\n\n[White should play d4] and\n[%eval 0.3] } 2. Nf3 1-0\n",
        '1. e4 e5 { a comment\n[White "the better" side] goes on } 2. Nf3 1-0\n',
        "1. e4 e5\n[diagram]\n2. Nf3 1-0\n",
        "1. e4 e5\n% [Event 1. d4 0-1 {\n2. Nf3 1-0\n",
    ],
)
def test_comments_variations_and_escapes_do_not_split_a_game(tmp_path: Path, moves: str) -> None:
    path = tmp_path / "g.pgn"
    path.write_text(HEADED + moves + "\n" + WHOLE)
    assert read(path) == (["e4 e5 Nf3", "Nf3 Nf6"], {"games": 2, "used": 2})


@pytest.mark.parametrize("suffix", [".pgn", ".pgn.zst"])
@pytest.mark.parametrize(
    "before",
    [
        b"\xef\xbb\xbf",
        b"% written by a program\n",
        b"%" + b" 1. e4" * 20_000 + b"\n",
        b"{ games of\n\na club }\n",
        b"; games of a club\n\n",
    ],
)
def test_what_stands_before_a_game_is_no_game(tmp_path: Path, before: bytes, suffix: str) -> None:
    path, raw = tmp_path / f"g{suffix}", (before + WHOLE.encode()) * 2
    path.write_bytes(zstandard.compress(raw) if suffix.endswith("zst") else raw)
    assert read(path) == (["Nf3 Nf6", "Nf3 Nf6"], {"games": 2, "used": 2})


def test_a_comment_that_is_never_closed_ends_at_the_next_header_that_is_whole(
    tmp_path: Path,
) -> None:
    path = tmp_path / "g.pgn"
    path.write_text(HEADED + "1. e4 e5 { and then\n\n[Event\n" + WHOLE)
    games, counts = read(path)
    assert games == ["e4", "Nf3 Nf6"]
    assert counts == {"games": 2, "used": 2, "truncated": 1}


@pytest.mark.parametrize(
    "line",
    ["", "{", "}", "{}", "a{b}c", "a{b}c{", "}{", "{{}", "{}}", "a } b { c } d", "{a}{b}{c} } {"],
)
@pytest.mark.parametrize("inside", [False, True])
def test_comments_are_taken_out_alike_with_and_without_a_semicolon(line: str, inside: bool) -> None:
    found = []
    for text in (line, line + ";" if not inside else line + " "):
        lines = GameLines()
        lines._in_comment = inside
        bare = lines._without_comments(text)
        found.append((bare.split(), lines._in_comment))
    assert found[0] == found[1]
    # Read a sign at a time, as the standard says it.
    for sign in line:
        inside = sign == "{" or (inside and sign != "}")
    assert found[0][1] == inside
