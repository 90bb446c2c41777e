"""`chess-lab eval --puzzles` and `--epd`: what they print and write, and what they refuse."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from algorithms.evaluation import puzzles
from tests.commands.lab import evaluate

TESTS = Path(__file__).parents[1]
PUZZLES = TESTS / "positions" / "puzzles.csv"
ENGINE = shlex.join([sys.executable, str(TESTS / "evaluation" / "uci_script.py")])
SUITE = """6k1/5ppp/8/8/8/8/8/R3K3 w Q - bm Ra8; id "one";
6k1/5ppp/8/8/8/8/8/R3K3 w Q - am Ra8;
6k1/5ppp/8/8/8/8/8/R3K3 w Q - dm 1;
6k1/5ppp/8/8/8/8/8/R3K3 w Q - dm 8;
6k1/5ppp/8/8/8/8/8/R3K3 w Q - bm Qa8;
"""


def test_puzzles_are_solved_by_all_players_in_one_table(run_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    others = "--beside", "builtin", "random", "material", "--engine", ENGINE
    said = evaluate(run_dir, "--puzzles", PUZZLES, *others, "--json", file, "--seed", 3)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == f"{PUZZLES}, 40 puzzles, seed 3"
    assert max(map(len, lines[1:])) <= 79
    assert [line.split()[1] for line in lines if line.startswith("all")] == ["40", "40"]
    found = json.loads(file.read_text())
    assert (found["error"], found["puzzles"], found["seed"]) == ("", 40, 3)
    assert found["lines_that_cannot_be_read"] == {"total": 0, "counts": {}, "first": []}
    names = [player["name"] for player in found["players"]]
    assert names == [f"{run_dir} (greedy)", "builtin", "random", "material", f"{ENGINE} (nodes=1)"]
    for player in found["players"]:
        assert player["puzzles"] == sum(band["puzzles"] for band in player["bands"]) == 40
        assert player["solved"] == sum(band["solved"] for band in player["bands"])
        assert player["share_low"] <= player["share"] <= player["share_high"]
    builtin = found["players"][1]
    half = builtin["half_solved"]
    assert half["low"] < half["rating"] < half["high"]
    assert any(
        line.startswith("half at") and f"{half['rating']:.0f} ({half['low']:.0f}-" in line
        for line in lines
    )


def test_the_builtin_evaluator_stands_beside_a_policy_unless_others_are_named(
    run_dir: Path,
) -> None:
    heads = {
        arguments: evaluate(run_dir, "--puzzles", PUZZLES, "--max-puzzles", 3, *arguments)
        for arguments in [(), ("--beside", "random"), ("--beside",)]
    }
    assert {a: ("builtin" in said.out, "random" in said.out) for a, said in heads.items()} == {
        (): (True, False),
        ("--beside", "random"): (False, True),
        ("--beside",): (False, False),
    }
    assert all(", 3 puzzles, seed 0" in said.out for said in heads.values())


def test_a_suite_gives_points_by_kind_and_names_what_it_left_out(
    run_dir: Path, tmp_path: Path
) -> None:
    suite, file = tmp_path / "suite.epd", tmp_path / "found.json"
    suite.write_text(SUITE)
    said = evaluate(run_dir, "--epd", suite, "--json", file)
    assert said.code == 0, said.err
    assert "lines that cannot be read: 1 (illegal move 1)" in said.out
    assert "line 5: 'Qa8' is not one legal move" in said.out
    assert "lines that cannot be judged: 1 (dm above 3 1)" in said.out
    found = json.loads(file.read_text())
    assert found["positions"] == 3
    builtin = found["players"][1]["kinds"]
    assert [(each["kind"], each["positions"], each["points"]) for each in builtin] == [
        ("bm", 1, 1.0),
        ("am", 1, 0.0),
        ("dm", 1, 1.0),
        ("all", 3, 2.0),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--puzzles", "x", "--positions"], "--positions and --puzzles are two measures"),
        (["--puzzles", "x", "--epd", "y"], "--puzzles and --epd are two measures"),
        (["--epd", "x", "--endings"], "--endings and --epd are two measures"),
        (["--puzzles", "x", "--games", "20"], "--games is of games and --puzzles plays none"),
        (["--epd", "x", "--opponents", "random"], "--opponents is of games and --epd plays none"),
        (["--epd", "x", "--max-puzzles", "3"], "an EPD suite is taken whole"),
        (["--puzzles", "x", "--max-puzzles", "0"], "--max-puzzles is 0: expected at least 1"),
        (["--puzzles", "x", "--engine-limit", "nodes=1"], "--engine-limit is of --engine"),
        (["--puzzles", "x", "--engine", "e", "--engine-limit", "n=1"], "--engine-limit 'n=1'"),
        (["--puzzles", "x", "--beside", "random", "random"], "--beside names 'random' twice"),
        (["--engine", "stockfish"], "--engine is of --puzzles and --epd"),
        (["--max-puzzles", "5"], "--max-puzzles is of --puzzles and --epd"),
        (["--puzzles", "nowhere.csv"], "puzzle file 'nowhere.csv' cannot be read"),
        (["--puzzles", str(PUZZLES), "--beside", "rndom"], "did you mean 'random'?"),
        (
            ["--puzzles", str(PUZZLES), "--engine", "/no/engine"],
            "engine '/no/engine' does not start",
        ),
    ],
)
def test_a_request_that_makes_no_sense_is_an_error(
    run_dir: Path, arguments: list[str], message: str
) -> None:
    said = evaluate(run_dir, *arguments)
    assert said.code == 1 and message in said.err.replace("--engine-limit: ", "--engine-limit ")
    assert said.out == ""


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        ("--puzzles", "", "holds no puzzles that can be judged"),
        ("--puzzles", "PuzzleId,FEN,Moves,Rating\n", "expected lines PuzzleId,FEN,Moves"),
        (
            "--puzzles",
            "a\nb\n",
            "lines that cannot be read: 2 (wrong number of fields 2), such as line 1",
        ),
        ("--epd", "", "holds no positions that can be judged"),
        ("--epd", "8/8/8/8/8/8/8/8 w - - bm e4;", "unreadable FEN 1"),
        (
            "--epd",
            "4k3/8/8/8/8/8/8/4K3 w - - dm 20;",
            "lines that cannot be judged: 1 (dm above 3 1)",
        ),
    ],
)
def test_a_file_without_anything_to_judge_is_an_error(
    flag: str, text: str, message: str, run_dir: Path, tmp_path: Path
) -> None:
    path, earlier = tmp_path / "file", tmp_path / "found.json"
    path.write_text(text)
    earlier.write_text("{}")
    said = evaluate(run_dir, flag, path, "--json", earlier)
    assert said.code == 1 and message in said.err and said.out == ""
    assert earlier.read_text() == "{}"


def test_an_engine_that_dies_is_an_error_that_names_it(run_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    said = evaluate(run_dir, "--puzzles", PUZZLES, "--engine", f"{ENGINE} dies", "--json", file)
    assert said.code == 1
    assert "uci_script.py dies (nodes=1) gave no move in" in said.err
    assert "exit code: 11" in json.loads(file.read_text())["error"]


def test_ctrl_c_prints_what_was_found_so_far(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("algorithms.commands.eval_suites.BATCH", 10)
    solve, calls = puzzles.solve, 0

    def interrupted(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:  # of two players: in the third batch
            raise KeyboardInterrupt
        return solve(*arguments, **more)

    monkeypatch.setattr(puzzles, "solve", interrupted)
    file = tmp_path / "found.json"
    said = evaluate(run_dir, "--puzzles", PUZZLES, "--json", file)
    assert said.code == 130 and "stopped by SIGINT" in said.err
    assert f"{PUZZLES}, 19 puzzles, seed 0" in said.out  # the header is a line too
    found = json.loads(file.read_text())
    assert (found["error"], found["puzzles"]) == ("stopped by SIGINT", 19)


def test_a_cut_file_is_said_to_be_cut(run_dir: Path, tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "cut.csv.gz"
    text = PUZZLES.read_text(encoding="utf-8")
    path.write_bytes(gzip.compress(text.encode())[:-400])
    said = evaluate(run_dir, "--puzzles", path)
    assert said.code == 0
    assert "The file could not be read to its end: the .gz ends in the middle" in said.out
