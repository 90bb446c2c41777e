"""Puzzles of a file, against python-chess; damaged lines, and the forms that a file may have.

`puzzles.csv` holds 40 puzzles of Lichess's database (https://database.lichess.org, CC0), with numbers of our own for
their ids and without their themes.
"""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import chess
import numpy as np
import pytest
import zstandard

from chess_env.moves import move_to_action
from chess_env.positions.puzzles import COLUMNS, PuzzleBatch, PuzzleFile
from chess_env.rules.fen import parse_fen

FILE = Path(__file__).with_name("puzzles.csv")
HEADER, *LINES = FILE.read_text(encoding="utf-8").splitlines()
FIRST = LINES[0]


def read(path: Path, size: int = 16, most: int | None = None) -> tuple[list[tuple], PuzzleFile]:
    """((line, rating, position, actions) of each puzzle, the file)."""
    file = PuzzleFile(path)
    found = [puzzle for batch in file.batches(size, most) for puzzle in unpacked(batch)]
    file.close()
    return found, file


def unpacked(batch: PuzzleBatch) -> list[tuple]:
    assert ((batch.actions >= 0).sum(axis=1) == batch.num_plies).all()
    return [
        (int(line), int(rating), position.tolist(), actions[:plies].tolist())
        for line, rating, position, actions, plies in zip(
            batch.lines, batch.ratings, batch.positions, batch.actions, batch.num_plies, strict=True
        )
    ]


def by_python_chess(line: str, number: int) -> tuple:
    fields = line.split(",")
    board = chess.Board(fields[1])
    actions = []
    for word in fields[2].split():
        move = board.parse_uci(word)
        actions.append(move_to_action(move, board.turn))
        board.push(move)
    return number, int(fields[3]), parse_fen(fields[1]).tolist(), actions


@pytest.mark.parametrize("size", [1, 7, 100])
def test_all_puzzles_are_read_as_by_python_chess(size: int) -> None:
    found, file = read(FILE, size)
    assert found == [by_python_chess(line, number) for number, line in enumerate(LINES, start=2)]
    assert file.left_out.total == 0


FORMS: dict[str, Callable[[str], bytes]] = {
    "zst": lambda text: zstandard.compress(text.encode()),
    "gz": lambda text: gzip.compress(text.encode()),
    "line ends of Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "utf-16": lambda text: text.encode("utf-16"),
    "no header": lambda text: text.partition("\n")[2].encode(),
    "no last line end": lambda text: text.rstrip("\n").encode(),
    "empty lines": lambda text: text.replace("\n", "\n\n").encode(),
    "quoted": lambda text: "\n".join(f'"{each}"'.replace(",", '","') for each in text.split("\n")).encode(),
    "without openings": lambda text: "\n".join(
        each.rpartition(",")[0] for each in text.splitlines()
    ).encode(),
    "header again": lambda text: (text + HEADER + "\n").encode(),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_read_whatever_its_form(form: str, tmp_path: Path) -> None:
    path = tmp_path / "puzzles"
    path.write_bytes(FORMS[form](FILE.read_text(encoding="utf-8")))
    found, file = read(path)
    assert [puzzle[1:] for puzzle in found] == [puzzle[1:] for puzzle in read(FILE)[0]]
    # Quotation marks around the empty last line leave one field.
    assert file.left_out.total == (form == "quoted")


def test_a_header_names_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    _, fen, moves, rating, *_ = FIRST.split(",")
    path.write_text(f"Rating,Moves,FEN\n{rating},{moves},{fen}\n")
    assert read(path)[0] == [by_python_chess(FIRST, 2)]


def changed(**values: str) -> str:
    fields = dict(zip(COLUMNS, FIRST.split(","), strict=True)) | values
    return ",".join(fields.values())


_FEN, _MOVES = FIRST.split(",")[1:3]


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        (FIRST + ",more", "wrong number of fields", "11 fields, expected 10"),
        ("half a li", "wrong number of fields", "1 fields, expected 10"),
        ('"' + "x" * 140_000, "wrong number of fields", "field larger than field limit"),
        (changed(Rating="high"), "bad rating", "rating 'high', expected a whole number"),
        (changed(Rating=""), "bad rating", "rating ''"),
        (changed(Rating="-500"), "bad rating", "rating '-500'"),
        (changed(Rating="0"), "bad rating", "rating '0'"),
        (changed(Rating="1500.5"), "bad rating", "rating '1500.5'"),
        (changed(Rating="١٥٠٠"), "bad rating", "rating"),
        (changed(Rating="15000"), "bad rating", "from 1 to 9999"),
        (changed(Moves=_MOVES.split()[0]), "odd number of moves", "1 moves, expected an even"),
        (changed(Moves=""), "wrong number of moves", "0 moves, expected an even"),
        (changed(Moves="e2e4 " * 102), "wrong number of moves", "from 2 to 100"),
        (changed(Moves=_MOVES.split()[0] + " a1a1"), "illegal move", "move 2, 'a1a1', is not legal"),
        (changed(Moves=_MOVES.split()[0] + " Nf3"), "illegal move", "'Nf3' is no move in UCI"),
        (changed(Moves="0000 0000"), "illegal move", "'0000' is no move in UCI"),
        (changed(FEN="8/8/8/8/8/8/8/8 w - - 0 1"), "unreadable FEN", "White has no king"),
        (changed(FEN=""), "unreadable FEN", "expected 4 to 6 fields"),
    ],
)  # fmt: skip
def test_a_damaged_line_is_counted_and_named_and_the_others_are_read(
    line: str, kind: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "puzzles.csv"
    path.write_text("\n".join([HEADER, LINES[1], line, LINES[2]]), encoding="utf-8")
    found, file = read(path)
    assert found == [by_python_chess(LINES[1], 2), by_python_chess(LINES[2], 4)]
    assert dict(file.left_out.counts) == {kind: 1}
    assert file.left_out.first[0][:2] == (3, kind)
    assert reason in file.left_out.first[0].reason


def test_a_promotion_needs_its_letter_and_castling_its_two_steps(tmp_path: Path) -> None:
    path = tmp_path / "puzzles.csv"
    fen = "8/1P4k1/8/8/8/8/8/R3K3 b Q - 0 1"
    words = ("b7b8q", "b7b8n", "e1c1", "b7b8", "b7b8k", "e1a1", "O-O-O")
    path.write_text("\n".join(f"x,{fen},g7g6 {word},1500,,,,,," for word in words))
    found, file = read(path)
    assert [puzzle[0] for puzzle in found] == [1, 2, 3]
    assert found == [by_python_chess(f"x,{fen},g7g6 {words[k]},1500", k + 1) for k in range(3)]
    assert dict(file.left_out.counts) == {"illegal move": 4}


def test_only_the_first_few_damaged_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "puzzles.csv"
    path.write_text("\n".join([HEADER, *["no"] * 3, *[changed(FEN="no")] * 3, *["no"] * 3]))
    _, file = read(path)
    assert dict(file.left_out.counts) == {"wrong number of fields": 6, "unreadable FEN": 3}
    assert [line.number for line in file.left_out.first] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("most", [1, 5, 39, 40, 99])
def test_the_first_readable_puzzles_are_taken(most: int, tmp_path: Path) -> None:
    path = tmp_path / "puzzles.csv"
    path.write_text("\n".join([HEADER, "no", *LINES[:3], "no", *LINES[3:]]))
    assert [puzzle[1:] for puzzle in read(path, most=most)[0]] == [
        puzzle[1:] for puzzle in read(FILE)[0][:most]
    ]


def test_a_packed_file_that_is_cut_gives_what_is_before(tmp_path: Path) -> None:
    path = tmp_path / "puzzles.csv.gz"
    rng = np.random.default_rng(0)
    lines = [LINES[k] for k in rng.integers(0, 40, 2_000)]
    path.write_bytes(gzip.compress("\n".join(lines).encode())[:-2_000])
    found, file = read(path)
    assert 0 < len(found) < 2_000
    assert "ends in the middle" in file.text.ended_early


def test_an_empty_file_has_no_puzzle(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    assert read(path)[0] == []


def test_what_is_held_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak_bytes(copies: int) -> int:
        path = tmp_path / f"{copies}.csv"
        path.write_text("\n".join([HEADER, *LINES * copies]))
        file = PuzzleFile(path)
        tracemalloc.start()
        assert sum(map(len, file.batches(128))) == 40 * copies
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        file.close()
        return peak

    peak_bytes(10)  # what is kept for good
    assert peak_bytes(100) < peak_bytes(20) + 100_000
