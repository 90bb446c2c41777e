"""The same games in every dialect that files come in: the moves that were played, and counts that are true."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from algorithms.pretraining import pgn
from tests.pretraining.games import random_game
from tests.pretraining.test_pgn_lines import read

HEADERS = '[Event "a"]\n[White "Müller"]\n[Result "1-0"]\n\n'
GAMES = [
    "e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7 Re1 b5 Bb3 d6",
    "d4 Nf6 c4 e6 Nc3 Bb4 Qc2 O-O a3 Bxc3+ Qxc3",
]


@pytest.fixture(autouse=True)
def nothing_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgn, "heldout_hashes", frozenset)


def numbered(game: str, change: Callable[[int, str], str] = lambda ply, word: word) -> str:
    words = [change(ply, word) for ply, word in enumerate(game.split())]
    return " ".join(f"{ply // 2 + 1}. {w}" if ply % 2 == 0 else w for ply, w in enumerate(words))


def written(change: Callable[[int, str], str] = lambda ply, word: word) -> str:
    return "".join(f"{HEADERS}{numbered(game, change)} 1-0\n\n" for game in GAMES)


def in_men(men: str) -> Callable[[int, str], str]:
    other = dict(zip("KQRBN", men.split(), strict=True))
    return lambda _, word: word if word[0] == "O" else "".join(other.get(a, a) for a in word)


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r\r\n").encode(),
        lambda text: text.replace("1-0", "½-½").encode("latin-1"),
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-16-be"),
        lambda text: gzip.compress(text.encode()) + bytes(512),
        lambda text: bz2.compress(text.encode()),
        lambda text: lzma.compress(text.encode("utf-16")),
        lambda text: b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstandard.compress(text.encode()),
        lambda text: text.encode() + b"\x1a",
        lambda text: ("% a line\nGames of the club\n\n" + text).encode(),
    ],
)
@pytest.mark.parametrize("name", ["games.pgn", "GAMES.PGN.ZST"])
def test_the_first_bytes_say_what_a_file_is(
    tmp_path: Path, name: str, encode: Callable[[str], bytes]
) -> None:
    (tmp_path / name).write_bytes(encode(written()))
    assert read(tmp_path / name) == (GAMES, {"games": 2, "used": 2})


@pytest.mark.parametrize(
    "text",
    [
        written(in_men("♔ ♕ ♖ ♗ ♘")),
        written(in_men("♚ ♛ ♜ ♝ ♞\ufe0e")),
        written(lambda ply, w: f"{w} {{ [%eval 0.17] [%clk 0:05:00] }} {ply // 2 + 1}..."),
        written(lambda ply, w: w + ("!?", " $14 $2", "+-", " ±", "N", " ; 1-0 {\n")[ply % 6]),
        written(lambda ply, w: w + " (1. a4 {1-0} (1. a3 h5) a5) {1. d4 (} " * (ply % 3 == 0)),
        written(lambda ply, w: w.replace("x", ":").replace("O", "0") + "\n% 1. a4 a5\n"),
        written(lambda ply, w: w + "\n\n" * (ply % 2)),
        written().replace("\n\n1. ", "\n\n(1. a4 a5) {\n\nbefore}\n1."),
        written().replace(". ", "."),
        written(lambda ply, w: w + ",").replace(". ", ") ").replace(" 1-0", " 1-0."),
        written().replace("]\n[", "] ["),
    ],
)
def test_what_stands_around_the_moves_changes_none_of_them(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.pgn").write_text(text)
    assert read(tmp_path / "g.pgn") == (GAMES, {"games": 2, "used": 2})


@pytest.mark.parametrize("men", ["K D T L S", "R D T F C", "R D T A C", "K D T L P", "Кр Ф Л С К"])
def test_another_language_is_read_and_counted(tmp_path: Path, men: str) -> None:
    (tmp_path / "g.pgn").write_text(written(in_men(men)))
    assert read(tmp_path / "g.pgn") == (GAMES, {"games": 2, "used": 2, "other_letters": 2})


def test_a_game_ends_before_the_first_word_that_is_not_understood_and_the_counts_say_why(
    tmp_path: Path,
) -> None:
    path = tmp_path / "g.pgn"
    good = f"{random_game(3)}\n\n"
    path.write_text(
        f"{good}{HEADERS}1. e4 e5 2. Nf3 Sc6 3. d4 1-0\n\n"
        f"{HEADERS}1. Sf3 Sf6 2. Th8 e5 1-0\n\n{HEADERS}1. e4 e5 and so on 1-0\n\n{HEADERS}1. 5254 5755 1-0\n\n{good}"
    )
    games, counts = read(path)
    assert games[1:-1] == ["e4 e5 Nf3", "e4 e5"] and games[0] == games[-1]
    assert counts == {"games": 6, "used": 4, "unreadable": 4, "unknown_letters": 2}
    assert "unreadable 3, unknown letters 2 (piece letters of another language?)" in (
        pgn.GameCounts(unreadable=3, unknown_letters=2).line()
    )


@pytest.mark.parametrize(
    "headers",
    [
        '[SetUp "1"] [FEN "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"]',
        '[setup "1"]\n[fen "4k3/8/8/8/8/8/4P3/4K3 w KQ - 0 1"]',
        '[FEN "4k3/8/8/8/8/8/4P3/4K3 w - -"]\n[Variant "From Position"]',
    ],
)
def test_the_start_of_a_game_is_found_however_its_headers_are_written(
    tmp_path: Path, headers: str
) -> None:
    (tmp_path / "g.pgn").write_text(f'[Event "a"]\n{headers}\n\n1. e4 Ke7 2. Kd2 Kd6 1-0\n')
    assert read(tmp_path / "g.pgn")[0] == ["e4 Ke7 Kd2 Kd6"]
