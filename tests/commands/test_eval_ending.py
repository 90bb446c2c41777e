"""How `chess-lab eval` ends before its time: by a signal, an engine, a file; and what is left then."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import chess_env.games.players
import chess_env.matches.arena
from algorithms.commands.result_files import UnwritableError, try_path
from chess_env.evaluators import EngineError
from chess_env.games.players import RandomPlayer
from chess_env.matches.match_result import MatchResult
from tests.commands.lab import evaluate

OLD = '{"precious": 1}\n'


@pytest.fixture(autouse=True)
def short_games(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chess_env.matches.arena.MATCH_PLIES", 12)


@pytest.fixture
def files(tmp_path: Path) -> list[Any]:
    (tmp_path / "found.json").write_text(OLD)
    (tmp_path / "games.pgn").write_text(OLD)
    return ["--json", tmp_path / "found.json", "--pgn", tmp_path / "games.pgn"]


def opponent(monkeypatch: pytest.MonkeyPatch, name: str, player: Any) -> None:
    make = chess_env.games.players.make_player
    monkeypatch.setattr(
        "chess_env.games.players.make_player",
        lambda asked: player if asked == name else make(asked),
    )


class Failing(RandomPlayer):
    """Fails instead of choosing moves after some calls."""

    name = "failing"

    def __init__(self, calls: int, fail: Any) -> None:
        self.calls, self.fail = calls, fail

    def choose(self, positions: Any, rngs: Any) -> Any:
        self.calls -= 1
        if self.calls < 0:
            self.fail()
        return super().choose(positions, rngs)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["SIGHUP", "SIGINT", "SIGTERM"],
)
def test_a_signal_ends_the_command_and_the_matches_before_it_are_kept(
    run_dir: Path,
    tmp_path: Path,
    files: list[Any],
    number: signal.Signals,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    # Under nohup it is ignored, and so it is by the command.
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    failing = Failing(2, lambda: os.kill(os.getpid(), number))
    opponent(monkeypatch, "builtin", failing)
    try:
        opponents = "--opponents", "random", "builtin", "material"
        said = evaluate(run_dir, "--games", 2, *opponents, *files)
    finally:
        signal.signal(signal.SIGINT, previous)
        signal.signal(signal.SIGHUP, hangup)
    assert signal.getsignal(signal.SIGTERM) is before
    assert said.code == code
    assert f"stopped by {number.name}" in said.err
    assert "against material" not in said.err
    assert "random  " in said.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert [entry["opponent"] for entry in found["opponents"]] == ["random"]
    assert found["error"] == f"stopped by {number.name}"
    assert (tmp_path / "games.pgn").read_text().count("[Event ") == 2


def test_a_signal_before_the_first_game_leaves_the_files_as_they_were(
    run_dir: Path, tmp_path: Path, files: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    opponent(monkeypatch, "builtin", Failing(0, stop))
    assert evaluate(run_dir, "--games", 2, "--opponents", "builtin", *files).code == 130
    assert (tmp_path / "found.json").read_text() == OLD
    assert (tmp_path / "games.pgn").read_text() == OLD
    new = tmp_path / "new.json"
    assert evaluate(run_dir, "--games", 2, "--opponents", "builtin", "--json", new).code == 130
    assert json.loads(new.read_text())["error"] == "stopped by SIGINT"


@pytest.mark.parametrize(
    "wrong",
    [
        ["--games", "3"],
        ["--opponents", "rndom"],
        ["--positions", "--device", "tpu"],
    ],
)
def test_a_wrong_option_leaves_the_earlier_result_in_the_file(
    run_dir: Path, tmp_path: Path, wrong: list[str]
) -> None:
    file = tmp_path / "found.json"
    file.write_text(OLD)
    code, _, err = evaluate(run_dir, *wrong, "--json", file)
    assert code == 1 and "playing" not in err
    assert file.read_text() == OLD


def die() -> None:
    raise EngineError("the engine cannot be used")


def play_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """None; matches have two boards, so that the pairs before one that stays void are finished."""
    play = chess_env.matches.arena.play_match

    def on_two_boards(*players: Any, **settings: Any) -> MatchResult:
        return play(*players, max_boards=2, **settings)

    monkeypatch.setattr("chess_env.matches.arena.play_match", on_two_boards)


def test_a_pair_that_stays_void_loses_no_finished_pair_of_its_match(
    run_dir: Path, tmp_path: Path, files: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    play_one_by_one(monkeypatch)
    opponent(monkeypatch, "builtin", Failing(3 * 12, die))  # three pairs of two games of 12 plies
    said = evaluate(run_dir, "--games", 20, "--opponents", "builtin", *files)
    assert said.code == 1
    assert "void 3 times" in said.err
    assert "builtin  " in said.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert [entry["games"] for entry in found["opponents"]] == [6]
    assert "the engine cannot be used" in found["error"]
    assert (tmp_path / "games.pgn").read_text().count("[Event ") == 6


def test_what_is_finished_of_a_continued_match_is_added_to_its_probe(
    run_dir: Path, tmp_path: Path, files: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chess_env.evaluators.find_stockfish", lambda: None)
    play_one_by_one(monkeypatch)
    opponent(monkeypatch, "material", Failing((10 + 3) * 12, die))
    assert evaluate(run_dir, "--games", 40, *files).code == 1
    found = json.loads((tmp_path / "found.json").read_text())["opponents"]
    assert {entry["opponent"]: entry["games"] for entry in found}["material"] == 26


def test_a_continued_match_is_told_what_was_played(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chess_env.evaluators.find_stockfish", lambda: None)
    play, told = chess_env.matches.arena.play_match, []

    def noted(*players: Any, **settings: Any) -> Any:
        told.append((settings["first_pair"], settings["before"]))
        return play(*players, **settings)

    monkeypatch.setattr("chess_env.matches.arena.play_match", noted)
    assert evaluate(run_dir, "--games", 22).code == 0
    assert {0, 10} == {first for first, _ in told}
    assert all((before is None) == (first == 0) for first, before in told)
    assert all(len(before.pair_points()) == 10 for first, before in told if first)


@pytest.mark.parametrize("opponents", [["--opponents", "random"], []])
def test_more_games_than_openings_are_refused_before_the_first(
    run_dir: Path, opponents: list[str]
) -> None:
    arguments = ["--openings", "openings@fixed=12", "--games", 26, *opponents]
    said = evaluate(run_dir, *arguments)
    assert said.code == 1
    assert "about 12 distinct positions: 13 pairs" in said.err
    assert "playing" not in said.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("full", ["--json", "--pgn"])
def test_a_file_that_cannot_be_written_is_named_and_the_other_is_written(
    run_dir: Path, tmp_path: Path, full: str
) -> None:
    other = "--pgn" if full == "--json" else "--json"
    arguments = ["--games", 2, "--opponents", "random", full, "/dev/full", other, tmp_path / "kept"]
    said = evaluate(run_dir, *arguments)
    assert said.code == 1
    assert f"chess-lab eval: {full} '/dev/full' cannot be written (No space left" in said.err
    assert "random  " in said.out
    text = (tmp_path / "kept").read_text()
    assert '[Event "chess-lab' in text or len(json.loads(text)["opponents"]) == 1


def test_one_file_for_games_and_figures_is_refused(run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    same = tmp_path / "folder" / ".." / "found"
    said = evaluate(run_dir, "--pgn", same, "--json", tmp_path / "found")
    assert said.code == 1
    assert "--pgn and --json both name" in said.err
    assert "playing" not in said.err
    assert not (tmp_path / "found").exists()


def test_trying_a_path_leaves_no_trace(tmp_path: Path) -> None:
    new, linked = tmp_path / "new" / "file", tmp_path / "link"
    try_path("--pgn", new)
    assert new.parent.is_dir() and not new.exists()
    linked.symlink_to(tmp_path / "target")
    try_path("--pgn", linked)
    assert linked.is_symlink()
    new.write_text(OLD)
    try_path("--pgn", new)
    assert new.read_text() == OLD
    with pytest.raises(UnwritableError, match="^--pgn .* cannot be written .*directory"):
        try_path("--pgn", tmp_path)
