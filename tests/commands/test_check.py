"""`chess-lab check`: every part is tried, and what is wrong comes with a remedy."""

from __future__ import annotations

import json
from pathlib import Path

import chess
import pytest

from algorithms import cli
from chess_env.moves import legal_actions
from chess_env.positions.obvious_moves import KINDS, OBVIOUS_PATH, read_obvious
from tests.commands.lab import Answer, chess_lab
from tests.commands.test_width import too_wide


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, dict]:
    """What `chess-lab check` says here, and its report."""
    legal_actions(chess.Board())  # compiles at least this
    path = tmp_path_factory.mktemp("check") / "check.json"
    answer = chess_lab("check", "--json", path)
    return answer, json.loads(path.read_text())


def test_check_reports_every_part_and_is_usable_here(checked: tuple[Answer, dict]) -> None:
    (code, out, _), report = checked
    names = {finding["name"]: finding for finding in report["findings"]}
    assert code == 0 and report["usable"] is True
    assert len(out.splitlines()) > 10 and too_wide(out) == []
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
    assert "MISSING   no-such-package" in output and 'pip install -e ".[train]"' in output


def test_check_without_an_engine_is_usable_and_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chess_env import evaluators

    monkeypatch.setattr(evaluators, "find_stockfish", lambda path=None: None)
    code, out, _ = chess_lab("check")
    assert code == 0 and "apt-get install stockfish" in out


@pytest.mark.stockfish
def test_check_measures_the_engine(checked: tuple[Answer, dict]) -> None:
    (engine,) = [finding for finding in checked[1]["findings"] if finding["name"] == "stockfish"]
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


def small_set(folder: Path) -> Path:
    """A set with the first position of each kind of the committed one."""
    values = json.loads(OBVIOUS_PATH.read_text(encoding="utf-8"))
    first = {each["kind"]: each for each in reversed(values["positions"])}
    path = folder / "set.json"
    path.write_text(json.dumps(values | {"positions": list(first.values())}), encoding="utf-8")
    return path


def test_check_says_how_an_evaluator_pays_the_obvious_moves(tmp_path: Path) -> None:
    out_path = tmp_path / "paid.json"
    code, out, _ = chess_lab("check", "--evaluator", "builtin", "--json", out_path)
    found = json.loads(out_path.read_text())
    assert code == 0 and "python" not in out  # what is installed is left out
    assert found["evaluator_id"] in out
    assert [row["kind"] for row in found["kinds"]] == [*KINDS, "all"]
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    for row in found["kinds"]:
        assert rows[row["kind"]][1:3] == [str(row["positions"]), f"{row['paid_right']:.1%}"]
    positions = found["positions"]
    assert len(positions) == found["kinds"][-1]["positions"] >= 240
    for each in positions:
        margin = each["right_reward"] - each["wrong_reward"]
        assert each["margin"] == pytest.approx(margin)
        assert each["paid_right"] == (margin >= found["min_margin"] == 0.01)
    worst = min(positions, key=lambda each: each["margin"])
    assert f"{worst['kind']}: " in out and worst["fen"] in out


def test_check_takes_any_reward_and_another_set(tmp_path: Path) -> None:
    path, out_path = small_set(tmp_path), tmp_path / "paid.json"
    reward = "win_prob_delta+0.5*cp_delta"
    arguments = ("--evaluator", "builtin", "--positions", path, "--json", out_path)
    code, out, _ = chess_lab("check", *arguments, "--reward", reward)
    found = json.loads(out_path.read_text())
    assert code == 0 and f"reward {reward}" in out
    assert found["reward"] == reward and len(found["positions"]) == len(KINDS)
    assert chess_lab("check", *arguments).code == 0
    by_default = json.loads(out_path.read_text())
    assert by_default["reward"] != reward
    assert found["positions"] != by_default["positions"]


def test_check_says_where_nothing_is_paid_but_mate_that_the_moves_tie(tmp_path: Path) -> None:
    _, out, _ = chess_lab(
        "check", "--evaluator", "builtin", "--reward", "outcome", "--positions", small_set(tmp_path)
    )
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["mate_in_1"][2] == "100.0%" and rows["mate_in_2"][2] == "0.0%"
    assert "is paid as much as" in out


@pytest.mark.stockfish
def test_check_judges_stockfish_in_80_columns(tmp_path: Path) -> None:
    code, out, _ = chess_lab(
        "check", "--evaluator", "stockfish:depth=1", "--positions", small_set(tmp_path)
    )
    assert code == 0 and "depth=1" in out
    fens = {position.fen for position in read_obvious().positions}
    assert all(len(line) <= 80 for line in out.splitlines() if line.strip() not in fens)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--evaluator", "bulitin"), 1, "evaluator 'bulitin' is unknown"),
        (("--evaluator", "builtin", "--reward", "win_prob"), 1, "reward term is 'win_prob'"),
        (("--evaluator", "builtin", "--positions", "no-such-set.json"), 1, "is missing"),
        (("--reward", "outcome"), 2, "--reward is about an evaluator: add --evaluator NAME"),
        (("--positions", "set.json"), 2, "--positions is about an evaluator"),
    ],
)
def test_check_refuses_what_it_cannot_judge(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    answer = chess_lab("check", *arguments)
    assert answer.code == code and said in answer.err


def test_check_refuses_a_file_that_is_no_set(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text('{"positions": [{}]}')
    answer = chess_lab("check", "--evaluator", "builtin", "--positions", path)
    assert answer.code == 1 and "the set of obvious moves" in answer.err
