"""Games are read as python-chess wrote them; what is damaged is counted and the rest is used."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from algorithms.pretraining import pgn
from algorithms.pretraining.pgn import GameCounts, read_positions
from chess_env.moves import action_to_move
from chess_env.positions.text_files import TextFile
from chess_env.rules.fen import board_from_fen, parse_fen, to_fen
from chess_env.rules.rules import hash_batch
from tests.pretraining.games import expected_moves, random_game, write_games


def read(
    path: Path, min_rating: int = 0, skip_plies: int = 0
) -> tuple[list[list[tuple[str, str]]], dict[str, int]]:
    """((FEN, move in UCI) of each game that gave any, counts that are not 0)."""
    counts, games = GameCounts(), []
    file = TextFile(path, "games")
    for positions, played in read_positions(
        file, min_rating=min_rating, skip_plies=skip_plies, counts=counts
    ):
        rows = []
        for position, action in zip(positions, played.tolist(), strict=True):
            fen = to_fen(position)
            rows.append((fen, action_to_move(action, board_from_fen(fen)).uci()))
        if rows:
            games.append(rows)
    file.close()
    return games, {name: count for name, count in vars(counts).items() if count}


@pytest.fixture(autouse=True)
def nothing_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random games begin with positions of the held-out table now and then."""
    monkeypatch.setattr(pgn, "heldout_hashes", frozenset)


def test_moves_and_positions_are_those_of_the_games(tmp_path: Path) -> None:
    games = [random_game(seed, num_plies=120) for seed in range(4)]
    found, counts = read(write_games(tmp_path / "g.pgn", games), skip_plies=6)
    assert found == [expected_moves(game, 6) for game in games]
    assert counts == {"games": 4, "used": 4}


def test_games_from_other_starts_promotions_and_castling_are_read(tmp_path: Path) -> None:
    fens = (
        "8/P6k/8/8/8/8/p6K/8 w - - 0 1",
        "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
        "4k3/8/8/8/pP6/8/8/4K3 b - b3 0 1",
    )
    games = [random_game(seed, num_plies=6, fen=fen) for seed, fen in enumerate(fens)]
    found, _ = read(write_games(tmp_path / "g.pgn", games))
    assert found == [expected_moves(game) for game in games]


def test_variations_comments_and_marks_are_not_part_of_the_game(tmp_path: Path) -> None:
    path = tmp_path / "g.pgn"
    path.write_text(
        '[Event "a"]\n\n1. e4 $1 { a comment (with brackets) [%clk 0:01:00]\n[%eval 0.3] } '
        "(1. d4 d5 (1... Nf6)) e5?! ; to the end of the line 2. a4\n2. Nf3 1-0\n"
    )
    ((*moves,),), counts = read(path)
    assert [move for _, move in moves] == ["e2e4", "e7e5", "g1f3"]
    assert counts == {"games": 1, "used": 1}


@pytest.mark.parametrize(
    ("ratings", "taken"),
    [
        (("1800", "1800"), True),
        (("1799", "2400"), False),
        (("2400", "1799"), False),
        (("2400", "?"), False),
        (("", "2400"), False),
        (("2400", "-1900"), False),
        (("2400", "99999999999999999999"), False),
    ],
)
def test_both_players_have_the_rating_asked_for(
    tmp_path: Path, ratings: tuple[str, str], taken: bool
) -> None:
    path = write_games(tmp_path / "g.pgn", [random_game(1, ratings=ratings)])
    found, counts = read(path, min_rating=1800)
    assert len(found) == taken and counts.get("low_rated", 0) == (not taken)
    assert len(read(path, min_rating=0)[0]) == 1


GOOD = expected_moves(random_game(7))


@pytest.mark.parametrize(
    ("damaged", "moves", "count"),
    [
        ('[Event "a"]\n\n1. e4 e5 2. Ke3 Nc6 1-0\n', 2, "illegal_moves"),
        ('[Event "a"]\n\n1. e4 e5 2. Ke3 ) Nf3 Nc6 1-0\n', 2, "illegal_moves"),
        ('[Event "a"]\n\n1. e4 e5 2. -- Nc6 1-0\n', 2, "illegal_moves"),
        ('[Event "a"]\n\n1. e4 e5 2. Nf3 N', 2, "truncated"),
        ('[Event "a"]\n\n1. e4 e5 { a comment that never ends\n', 1, "truncated"),
        ('[Event "a"]\n[White "b\n[BlackElo 1900]\n\n1. e4 e5 1-0\n', 2, "broken_headers"),
        ('[Event "a"]\n[FEN "8/8/8]\n\n1. e4 e5 1-0\n', 0, "bad_starts"),
        ('[Event "a"]\n[SetUp "1"]\n\n1. e4 e5 1-0\n', 0, "bad_starts"),
        ('[Event "a"]\n[SetUp "1"]\n[FEN "nonsense"]\n\n1. e4 e5 1-0\n', 0, "bad_starts"),
        ('[Event "a"]\n[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n1. e4 1-0\n', 0, "bad_starts"),
        ('[Event "a"]\n[Variant "Atomic"]\n\n1. e4 e5 1-0\n', 0, "variants"),
        ('[Event "a"]\n[Variant "Chess960"]\n\n1. e4 e5 1-0\n', 0, "variants"),
        (f'[Event "a"]\n\n1. e4 ${"9" * 5000} e5 1-0\n', 1, "unreadable"),
        ('[Event "a"]\n[Result "1-0"]\n\n', 0, "truncated"),
        ('[Event "a"]\n\n1. e4 \udcff e5 1-0\n', 2, "used"),
    ],
)
def test_damage_is_counted_and_stays_within_its_game(
    tmp_path: Path, damaged: str, moves: int, count: str
) -> None:
    path = tmp_path / "g.pgn"
    good = f"{random_game(7)}\n\n"
    path.write_bytes((good + damaged + "\n" + good).encode("utf-8", "surrogateescape"))
    found, counts = read(path)
    assert counts["games"] == 3
    assert found[0] == found[-1] == GOOD
    assert sum(map(len, found)) == 2 * len(GOOD) + moves
    assert counts[count] == (3 if count == "used" else 1 if count != "broken_headers" else 2)


def test_games_without_headers_are_games(tmp_path: Path) -> None:
    path = tmp_path / "g.pgn"
    path.write_text("1. e4 e5 1-0\n\n1. d4 d5 0-1\n")
    found, counts = read(path)
    assert [[move for _, move in game] for game in found] == [["e2e4", "e7e5"], ["d2d4", "d7d5"]]
    assert counts == {"games": 2, "used": 2}


def test_held_out_positions_forced_moves_and_finished_games_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "g.pgn"
    path.write_text('[Event "a"]\n\n1. e4 e5 2. Nf3 Nc6 1-0\n')
    whole = [fen for fen, _ in read(path)[0][0]]
    hashes = frozenset(hash_batch(parse_fen(whole[2])[None]).tolist())
    monkeypatch.setattr(pgn, "heldout_hashes", lambda: hashes)
    found, counts = read(path)
    assert [fen for fen, _ in found[0]] == whole[:2] + whole[3:]
    assert counts["held_out"] == 1
    # The king in the corner has one move; then a bare board goes on though it is drawn.
    forced = random_game(0, num_plies=3, fen="7k/5K2/8/6R1/8/8/8/8 b - - 0 1")
    drawn = random_game(0, num_plies=3, fen="7k/8/8/8/8/8/8/K7 w - - 0 1")
    found, _ = read(write_games(path, [forced, drawn]))
    assert len(found) == 1 and found[0][0][0].split()[1] == "w"


def test_a_file_is_read_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "g.pgn"
    text = f"{random_game(3, ratings=('1000', '1000'))}\n\n"
    long = '[Event "b"]\n\n1. e4 { ' + f"{'x ' * 1_000}\n" * 250 + "} 1-0\n\n"
    path.write_text((text + long) * 24)
    assert path.stat().st_size > 10_000_000
    tracemalloc.start()
    _, counts = read(path, min_rating=1500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts == {"games": 48, "low_rated": 48}
    assert peak < 8_000_000


ARCHIVES = (
    b"PK\x03",
    b"7z\xbc",
    b"Rar!",
    b"\x04\x22\x4d",
    b"\x28\xb5\x2f",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zX",
)
SIGNS = [b"{", b"}", b"(", b")", b"[", b"]", b"\n\n", b'"', b"$", b"--", b"1-0"]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_to_a_file_raises_or_gives_an_illegal_move(tmp_path: Path, data: Any) -> None:
    raw = bytearray("".join(f"{random_game(seed, num_plies=8)}\n\n" for seed in range(3)).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        piece = data.draw(st.binary(max_size=4) | st.sampled_from(SIGNS))
        raw[at : at + data.draw(st.integers(0, 8))] = piece
    assume(not raw.startswith(ARCHIVES))  # which are unpacked or refused
    path = tmp_path / "g.pgn"
    path.write_bytes(raw)
    found, counts = read(path)
    for game in found:
        for fen, uci in game:
            assert chess.Move.from_uci(uci) in chess.Board(fen).legal_moves
    assert counts.get("used", 0) == len(found)
    assert np.all([value >= 0 for value in counts.values()])
