"""A UCI engine as a player: a real process, quit at the end; what goes wrong names it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import chess
import pytest

from algorithms.evaluation.puzzles import solve
from algorithms.evaluation.uci_player import UciPlayer, checked_limit
from chess_env.evaluators.uci import EngineError
from chess_env.games.players import FunctionPlayer, make_player
from chess_env.positions.puzzles import PuzzleFile

FILE = Path(__file__).parents[1] / "positions" / "puzzles.csv"
SCRIPT = Path(__file__).with_name("uci_script.py")


def command(*arguments: object) -> str:
    return shlex.join([sys.executable, str(SCRIPT), *map(str, arguments)])


def solved(player) -> list[bool]:
    file = PuzzleFile(FILE)
    found = [each for batch in file.batches(64) for each in solve(player, batch, seed=0).tolist()]
    file.close()
    return found


def test_an_engine_solves_what_its_rule_solves_and_is_quit(tmp_path: Path) -> None:
    rule = FunctionPlayer(lambda board, rng: min(board.legal_moves, key=chess.Move.uci))
    player = UciPlayer(command("", tmp_path / "left"), "nodes=1")
    try:
        assert solved(player) == solved(rule)
    finally:
        player.close()
    assert (tmp_path / "left").read_text() == "quit"


def test_an_engine_that_dies_is_an_error_that_names_it() -> None:
    player = UciPlayer(command("dies"), "depth=1")
    try:
        with pytest.raises(
            EngineError, match=r"uci_script.py dies \(depth=1\) gave no move in '.*exit code: 11"
        ):
            solved(player)
    finally:
        player.close()


def test_an_engine_that_plays_an_illegal_move_is_an_error_that_names_it() -> None:
    player = UciPlayer(command("illegal"), "movetime_ms=5")
    try:
        with pytest.raises(EngineError, match=r"illegal \(movetime_ms=5\) gave no move in"):
            solved(player)
    finally:
        player.close()


@pytest.mark.parametrize("program", ["/no/such/engine", "true", str(FILE)])
def test_a_program_that_is_no_engine_is_an_error_that_names_it(program: str) -> None:
    with pytest.raises(EngineError, match=f"engine '{program}' does not start as a UCI engine"):
        UciPlayer(program, "nodes=1")


@pytest.mark.parametrize(("text", "message"), [("", "no command"), ("'open", "quotation mark")])
def test_a_command_line_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UciPlayer(text, "nodes=1")


def test_an_option_that_the_engine_does_not_offer_is_an_error_that_names_both() -> None:
    with pytest.raises(
        EngineError, match=r"uci_script.py.* does not take Skill Level=0: .*support"
    ):
        UciPlayer(command(), "nodes=1", {"Skill Level": 0})


@pytest.mark.parametrize("limit", ["", "nodes", "nodes=0", "nodes=-1", "time=3", "depth=1.5"])
def test_other_limits_are_refused(limit: str) -> None:
    with pytest.raises(ValueError, match="expected nodes=N, depth=N or movetime_ms=N"):
        checked_limit(limit)


@pytest.mark.stockfish
def test_stockfish_as_any_engine_plays_as_it_does_by_its_name() -> None:
    by_name = make_player("engine:nodes=1")
    by_command = UciPlayer(str(by_name.evaluator.path), "nodes=1")  # type: ignore[attr-defined]
    try:
        assert solved(by_command) == solved(by_name)
    finally:
        by_command.close()
        by_name.close()
