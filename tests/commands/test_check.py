"""`chess-lab check`: every part is tried, and what is wrong comes with a remedy."""

from __future__ import annotations

import json
from pathlib import Path

import chess
import pytest

from algorithms import cli
from chess_env.moves import legal_actions
from tests.commands.lab import chess_lab


def test_check_reports_every_part_and_is_usable_here(tmp_path: Path) -> None:
    legal_actions(chess.Board())  # compiles at least this
    code, out, _ = chess_lab("check", "--json", tmp_path / "check.json")
    report = json.loads((tmp_path / "check.json").read_text())
    names = {finding["name"]: finding for finding in report["findings"]}
    assert code == 0 and report["usable"] is True
    assert {"python", "torch", "stockfish", "cuda", "numba cache", "held-out set"} <= names.keys()
    assert names["torch"]["values"]["version"] in out
    assert names["numba cache"]["values"]["compiled"] > 0
    assert names["algorithms"]["values"]["path"] == str(Path(cli.__file__).parent)


def test_check_fails_with_a_remedy_when_a_package_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from algorithms.run_folder import environment

    monkeypatch.setattr(environment, "PACKAGES", ("torch", "no-such-package"))
    code, output, _ = chess_lab("check")
    assert code == 1
    assert "MISSING   no-such-package" in output and "pip install -e ." in output


def test_check_names_a_folder_that_is_imported_for_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import algorithms

    other = tmp_path / "algorithms"
    monkeypatch.setattr(algorithms, "__path__", [str(other), *algorithms.__path__])
    code, said, _ = chess_lab("check")
    assert code == 1
    said = " ".join(said.split())  # lines end at 80 columns
    assert f"`import algorithms` finds {other} " in said and "python -P -m algorithms.cli" in said


def test_check_without_an_engine_is_usable_and_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chess_env import evaluators

    monkeypatch.setattr(evaluators, "find_stockfish", lambda path=None: None)
    code, out, _ = chess_lab("check")
    assert code == 0 and "apt-get install stockfish" in out


@pytest.mark.stockfish
def test_check_measures_the_engine(tmp_path: Path) -> None:
    cli.main(["check", "--json", str(tmp_path / "check.json")])
    findings = json.loads((tmp_path / "check.json").read_text())["findings"]
    (engine,) = [finding for finding in findings if finding["name"] == "stockfish"]
    assert engine["state"] == "ok" and engine["values"]["nodes_per_s"] > 1_000
    assert "Stockfish" in engine["values"]["version"] and engine["values"]["network"]


def test_check_with_a_wrong_engine_path_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STOCKFISH_PATH", "/nope")
    code, out, _ = chess_lab("check")
    assert code == 1
    assert "/nope" in out
    assert "held-out set" in out
