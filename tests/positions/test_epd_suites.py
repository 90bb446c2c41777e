"""Positions of an EPD suite, against python-chess; operations that cannot be read, and what cannot be judged."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from chess_env.moves import move_to_action
from chess_env.positions.epd_suites import KINDS, EpdFile
from chess_env.rules.fen import to_fen

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -"
CASTLES = "r3k2r/1P6/8/8/8/8/8/R3K2R w KQkq -"


def read(text: str, path: Path) -> tuple[list[tuple], EpdFile]:
    """((line, kind, FEN, {move: worth}, moves of a mate) of each position, the file)."""
    path.write_text(text, encoding="utf-8")
    file = EpdFile(path)
    found: list[tuple] = []
    for batch in file.batches(3):
        for row, position in enumerate(batch.positions):
            board = chess.Board(to_fen(position))
            names = {move_to_action(move, board.turn): move.uci() for move in board.legal_moves}
            own = batch.rows == row
            worth = {
                names[action]: value
                for action, value in zip(
                    batch.actions[own].tolist(), batch.worth[own].tolist(), strict=True
                )
            }
            kind = KINDS[batch.kinds[row]]
            found.append((int(batch.lines[row]), kind, board.fen(), worth, int(batch.mate_in[row])))
    file.close()
    return found, file


def one(line: str, path: Path) -> tuple:
    """(kind, {move: worth}, moves of a mate) of a line."""
    found, file = read(line, path)
    assert (len(found), file.left_out.total, file.not_judged.total) == (1, 0, 0)
    return found[0][1], *found[0][3:]


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ("bm Nf3;", ("bm", {"g1f3": 1.0}, 0)),
        ("bm Nf3 Nc3 e4;", ("bm", {"g1f3": 1.0, "b1c3": 1.0, "e2e4": 1.0}, 0)),
        ("bm Nf3, e2e4", ("bm", {"g1f3": 1.0, "e2e4": 1.0}, 0)),
        ('id "a; bm e4;"; bm d4!; c0 "x;y";', ("bm", {"d2d4": 1.0}, 0)),
        ("am f3 g4;", ("am", {"f2f3": 0.0, "g2g4": 0.0}, 0)),
        ("bm e4; am f3;", ("bm", {"e2e4": 1.0, "f2f3": 0.0}, 0)),
        ("dm 2;", ("dm", {}, 2)),
        ("dm 3; bm e4;", ("dm", {"e2e4": 1.0}, 3)),
        ("dm 7; bm e4;", ("bm", {"e2e4": 1.0}, 0)),
        ("0 1 bm e4;", ("bm", {"e2e4": 1.0}, 0)),
        ('bm e4; c8 "10 5"; c9 "e2e4 d2d4";', ("graded", {"e2e4": 1.0, "d2d4": 0.5}, 0)),
        ('bm e4; c7 "e4 Nf3"; c8 "8 2";', ("graded", {"e2e4": 1.0, "g1f3": 0.25}, 0)),
        ('c7 "a3 b3"; c8 "10 5"; c9 "e2e4 d2d4";', ("graded", {"e2e4": 1.0, "d2d4": 0.5}, 0)),
        ('bm e4; c7 "a note"; c8 "another";', ("bm", {"e2e4": 1.0}, 0)),
        ("c8 10; c9 e2e4;", ("graded", {"e2e4": 1.0}, 0)),
    ],
)
def test_operations_say_what_moves_are_worth(
    operations: str, expected: tuple, tmp_path: Path
) -> None:
    assert one(f"{START} {operations}", tmp_path / "suite.epd") == expected


@pytest.mark.parametrize("fen", [START, CASTLES])
def test_moves_are_read_as_python_chess_reads_them(fen: str, tmp_path: Path) -> None:
    board = chess.Board(f"{fen} 0 1")
    lines = [board.epd(bm=[move]) for move in board.legal_moves]
    lines += [board.epd(am=[move], id='a;"b'.replace('"', "")) for move in board.legal_moves]
    found, _ = read("\n".join(lines), tmp_path / "suite.epd")
    expected = []
    for number, line in enumerate(lines, start=1):
        _, operations = chess.Board.from_epd(line)
        kind = "bm" if "bm" in operations else "am"
        moves: list[chess.Move] = operations[kind]  # type: ignore[assignment]
        worth = {move.uci(): float(kind == "bm") for move in moves}
        expected.append((number, kind, board.fen(), worth, 0))
    assert found == expected


def test_the_clocks_are_those_of_the_fields_or_of_hmvc_and_fmvn(tmp_path: Path) -> None:
    fen = "4k3/8/8/8/8/8/8/4K2R w K -"
    lines = [f"{fen} bm O-O;", f"{fen} 7 30 bm O-O;", f"{fen} bm O-O; hmvc 9 ; fmvn 40;"]
    found, _ = read("\n".join(lines), tmp_path / "suite.epd")
    assert [each[2].split()[4:] for each in found] == [["0", "1"], ["7", "30"], ["9", "40"]]


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        (f'{START} bm e4; id "open;', "operation that cannot be read", "without its second one"),
        (f"{START} bm e4; ?? x;", "operation that cannot be read", "'?? x' is no operation"),
        (f"{START} bm;", "operation that cannot be read", "'bm' names no move"),
        (f"{START} bm e4; bm d4;", "operation that cannot be read", "'bm' stands there twice"),
        (f"{START} bm Zz9;", "operation that cannot be read", "'Zz9' is no move"),
        (f"{START} dm x;", "operation that cannot be read", "dm 'x': expected the number"),
        (f"{START} dm 0;", "operation that cannot be read", "dm '0'"),
        (f'{START} c8 "10 5"; c9 "e2e4";', "operation that cannot be read", "with 1 moves"),
        (f'{START} c8 "10 x"; c9 "e2e4 d2d4";', "operation that cannot be read", '"10 x"'),
        (f'{START} c8 "0"; c9 "e2e4";', "operation that cannot be read", "points above 0"),
        (f"{START} bm e5;", "illegal move", "'e5' is not one legal move"),
        ("4k3/8/8/8/8/8/8/1N2KN2 w - - bm Nd2;", "illegal move", "'Nd2' is not one legal move"),
        ("8/8/8/8/8/8/8/8 w - - bm e4;", "unreadable FEN", "White has no king"),
        ("rnbqkbnr/pppppppp w", "wrong number of fields", "2 fields"),
        ("k7/8/1Q6/8/8/8/8/4K3 b - - dm 1;", "game over", "no legal move"),
    ],
)
def test_a_line_that_cannot_be_read_is_counted_and_named_and_the_others_are_read(
    line: str, kind: str, reason: str, tmp_path: Path
) -> None:
    text = f"# a comment\n{START} bm e4;\n\n{line}\n{START} am f3;\n"
    found, file = read(text, tmp_path / "suite.epd")
    assert [each[0] for each in found] == [2, 5]
    assert dict(file.left_out.counts) == {kind: 1} and file.not_judged.total == 0
    assert file.left_out.first[0][:2] == (4, kind)
    assert reason in file.left_out.first[0].reason


def test_what_cannot_be_judged_is_counted_and_named(tmp_path: Path) -> None:
    text = f'{START} c0 "no task";\n{START}\n{START} dm 9;\n{START} bm e4;\n'
    found, file = read(text, tmp_path / "suite.epd")
    assert [each[0] for each in found] == [4] and file.left_out.total == 0
    assert dict(file.not_judged.counts) == {"no bm, am, dm or points": 2, "dm above 3": 1}
    assert [line.number for line in file.not_judged.first] == [1, 2, 3]
