"""`chess-lab eval --endings`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from algorithms.evaluation.endings import table
from chess_env.matches.won_endings import EndingGame, EndingResult
from chess_env.positions.endings import ENDINGS
from tests.commands.lab import evaluate


@pytest.fixture
def few_games(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two positions of each ending, and no Stockfish."""
    monkeypatch.setattr("algorithms.evaluation.endings.POSITIONS", 2)
    monkeypatch.setattr("chess_env.evaluators.find_stockfish", lambda: None)


@pytest.mark.usefixtures("few_games")
def test_endings_are_played_against_two_defenders_and_written(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    answer = evaluate("example", "--endings", "--seed", 2, "--json", file)
    said = answer.out.splitlines()
    assert answer.code == 0, answer.err
    assert "No Stockfish found: builtin defends in its place." in answer.err
    assert max(map(len, said)) <= 79
    assert said[0].startswith("example (greedy) with the stronger side, 2 won positions of each")
    found = json.loads(file.read_text())
    assert (found["error"], found["seed"], found["temperature"]) == ("", 2, 0.0)
    asked = [(each["ending"], each["defender"]) for each in found["endings"]]
    assert asked == [(ending, who) for ending in ENDINGS for who in ("random", "builtin")]
    for each in found["endings"]:
        assert each["games"] == len(each["played"]) == 2
        assert each["wins"] + each["draws"] + each["losses"] == 2
        assert each["won_share_low"] <= each["won_share"] <= each["won_share_high"]
        row = f"{each['ending']:<7}{each['defender']:<18}{100 * each['won_share']:.0f} ("
        assert any(line.startswith(row) for line in said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--positions"], "--positions and --endings are two measures"),
        (["--games", "20"], "--games is of games and --endings plays its own"),
        (["--opponents", "random"], "--opponents is of games and --endings plays its own"),
        (["--openings", "openings"], "--openings is of games and --endings plays its own"),
        (["--pgn", "x.pgn"], "--pgn is of games and --endings plays its own"),
        (["--temperature", "1", "--temperature", "2"], "--temperature is given more than once"),
    ],
)
def test_options_that_endings_would_ignore_are_refused(arguments: list[str], message: str) -> None:
    answer = evaluate("example", "--endings", *arguments)
    assert answer.code == 1 and message in answer.err and answer.out == ""


def test_a_checkpoint_that_is_none_is_an_error_and_an_earlier_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    file.write_text("{}")
    answer = evaluate("nowhere", "--endings", "--json", file)
    assert answer.code == 1 and "'nowhere' cannot be read" in answer.err
    assert file.read_text() == "{}"


def test_a_long_row_is_wrapped_under_its_column() -> None:
    causes = (
        "threefold_repetition",
        "fifty_moves",
        "stalemate",
        "insufficient_material",
        "ply_limit",
    )
    games = [EndingGame("", None, cause, 9, ()) for cause in causes]
    games += [EndingGame("", False, "checkmate", 4, ()), EndingGame("", True, "checkmate", 31, ())]
    result = EndingResult("KQ-KR", "engine(stockfish)", tuple(games), 21.0)
    lines = table({("KQ-KR", "engine:nodes=1000"): result})
    assert max(map(len, lines)) <= 79
    assert lines[1].startswith("KQ-KR  engine:nodes=1000 14 (")
    joined = " ".join(line.strip() for line in lines[1:])
    for part in ("repetition 1", "50 moves 1", "no material 1", "ply limit 1", "lost 1"):
        assert part in joined
