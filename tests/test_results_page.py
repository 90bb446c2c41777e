"""docs/results.md says what the committed results say, and the figures behind it are computed rightly."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from algorithms.networks.weights import ship
from benchmarks import strong_tables
from benchmarks.learning import annotated_game, pretraining, strong

ROOT = Path(__file__).parents[1]


def test_the_page_is_what_its_script_writes() -> None:
    command = [sys.executable, str(ROOT / "docs" / "results_page.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def row(**changes: Any) -> dict[str, Any]:
    return {
        "games": 200,
        "greedy_regret_cp": 75.0,
        "random_score": 0.8,
        "random_losses": 2,
        "material_score": 0.65,
    } | changes


def test_each_line_of_what_is_wanted_holds_at_its_bound_and_fails_beyond_it() -> None:
    assert [line.split("|")[3].strip() for line in strong_tables.wanted(row())] == ["yes"] * 4
    beyond = row(greedy_regret_cp=75.1, random_score=0.79, random_losses=3, material_score=0.64)
    assert [line.split("|")[3].strip() for line in strong_tables.wanted(beyond)] == ["**no**"] * 4


def test_the_arms_of_a_comparison_are_lines_with_a_figure_for_each_seed() -> None:
    def arm(name: str, seed: int, regret_cp: float) -> dict[str, Any]:
        regrets = {"eval/regret_cp": regret_cp, "eval/regret_cp_greedy": regret_cp / 2}
        return {"arm": name, "seed": seed, "cpu_s": 60 * seed, "eval/entropy": 0.5, **regrets}

    rows = [arm(name, seed, 100.0 + seed) for seed in (1, 2) for name in ("pretrained", "rl")]
    assert strong_tables.arms_table(rows)[2:] == [
        "| pretrained | 101.0, 102.0 | 50.5, 51.0 | 0.50, 0.50 | 1, 2 |",
        "| then RL | 101.0, 102.0 | 50.5, 51.0 | 0.50, 0.50 | 1, 2 |",
    ]


def test_a_difference_is_better_worse_or_not_told_apart() -> None:
    def verdict(low: float, high: float) -> str:
        row = {
            "control": "continued", "metric": "eval/regret_cp", "difference_cp": (low + high) / 2,
            "low": low, "high": high, "rl_is_better": high < 0,
        }  # fmt: skip
        return strong_tables.differences_table([row])[2].split("|")[4].strip()

    found = [verdict(-9, -1), verdict(-1, 1), verdict(1, 9)]
    assert found == ["yes", "not told apart", "**no**"]


def ply(**changes: Any) -> dict[str, Any]:
    start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    return {
        "fen": start,
        "by_policy": True,
        "san": "e4",
        "score_cp": 30,
        "probability": 0.5,
        "best_san": "d4",
        "best_score_cp": 90,
    } | changes


def test_the_game_says_what_a_better_move_was_worth_and_what_was_answered() -> None:
    rows = [ply(), {"fen": "", "by_policy": False, "san": "e5", "score_cp": 0}, {"fen": ""}]
    assert strong_tables.game_table(rows)[2] == "| 1. e4 | 0.50 | +0.3 | d4 (60 cp better) | e5 |"
    same = [ply(best_san="e4", best_score_cp=30), {"fen": ""}]
    assert strong_tables.game_table(same)[2] == "| 1. e4 | 0.50 | +0.3 | the same |  |"


@pytest.mark.parametrize(
    ("score_cp", "said"),
    [
        (10_000, "mate"),
        (9_997, "mates in 3 plies"),
        (-9_998, "is mated in 2 plies"),
        (-150, "-1.5"),
    ],
)
def test_scores_are_pawns_and_mates_count_plies(score_cp: int, said: str) -> None:
    assert strong_tables._score(score_cp) == said


def test_the_first_large_lead_is_the_board_after_the_move_that_made_it() -> None:
    rows = [ply(score_cp=100), ply(score_cp=600), {"fen": "after"}, {"fen": "end"}]
    assert strong_tables.first_lead(rows)["fen"] == "after"
    assert strong_tables.first_lead([ply(score_cp=0), {"fen": "end"}])["fen"] == "end"


def arm(name: str, seed: int, regret_cp: float) -> dict[str, Any]:
    return {"arm": name, "seed": seed, "eval/regret_cp_greedy": regret_cp}


def test_the_difference_to_a_control_is_taken_seed_by_seed_with_students_interval() -> None:
    rows = [arm("rl", 1, 70.0), arm("rl", 2, 75.0), arm("rl", 3, 80.0)]
    rows += [arm("continued", 1, 80.0), arm("continued", 2, 87.0), arm("continued", 3, 91.0)]
    found = pretraining.difference(rows, "continued", "eval/regret_cp_greedy")
    # -10, -12, -11: mean -11, standard deviation 1, t(.975, 2) = 4.3027, over the root of 3.
    assert found["difference_cp"] == -11.0
    assert found["low"] == pytest.approx(-13.48, abs=0.01)
    assert found["high"] == pytest.approx(-8.52, abs=0.01)
    assert found["rl_is_better"]
    level = [arm("rl", 1, 70.0), arm("rl", 2, 90.0), arm("continued", 1, 80.0)]
    level.append(arm("continued", 2, 80.0))
    assert not pretraining.difference(level, "continued", "eval/regret_cp_greedy")["rl_is_better"]
    worse = [{**row, "arm": {"rl": "continued", "continued": "rl"}[row["arm"]]} for row in rows]
    assert not pretraining.difference(worse, "continued", "eval/regret_cp_greedy")["rl_is_better"]


@pytest.mark.slow
def test_the_comparison_with_more_pretraining_runs_whole_and_is_not_repeated(
    tmp_path: Path,
) -> None:
    target, out = tmp_path / "figures.json", tmp_path / "runs"
    command = [sys.executable, "-m", "benchmarks.learning.pretraining", "--smoke", "--seeds", "1"]
    command += ["--out", str(out)]
    subprocess.run([*command, "--json", str(target)], cwd=ROOT, check=True, timeout=300)
    rows = json.loads(target.read_text())["rows"]
    assert [row["arm"] for row in rows] == ["pretrained", "rl", "continued", "restarted"]
    records = {path: path.read_bytes() for path in out.rglob("metrics.jsonl")}
    assert len(records) == 4
    subprocess.run([*command, "--json", str(target)], cwd=ROOT, check=True, timeout=100)
    assert {path: path.read_bytes() for path in out.rglob("metrics.jsonl")} == records
    assert json.loads(target.read_text())["rows"] == rows


def test_a_curve_keeps_the_evaluations_and_the_matches_played_at_them(tmp_path: Path) -> None:
    rows = [
        '{"step": 0, "scored_moves": 0, "eval/regret_cp": 384.0, "eval/entropy": 3.3}',
        '{"step": 1, "scored_moves": 64, "policy/entropy": 3.2}',
        '{"step": 2, "scored_moves": 128, "eval/regret_cp": 300.123469, "match/random/score": 0.5,'
        ' "match/random/conversion": null}',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    assert strong.curve_of(tmp_path) == [
        {"scored_moves": 0, "eval/regret_cp": 384.0, "eval/entropy": 3.3},
        {"scored_moves": 128, "eval/regret_cp": 300.1235, "match/random/score": 0.5},
    ]


def test_shipping_a_policy_writes_its_hash_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    target = ship(tmp_path / "model.safetensors", "example", tmp_path / "shipped")
    assert target.read_bytes() == b"weights"
    digest = hashlib.sha256(b"weights").hexdigest()
    assert target.with_suffix(".sha256").read_text() == f"{digest}  example.safetensors\n"


def test_a_game_without_a_win_to_show_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Drawn:
        games = ()

    monkeypatch.setattr(annotated_game, "play_match", lambda *args, **kwargs: Drawn())

    class Nobody:
        name = "nobody"

    with pytest.raises(RuntimeError, match="won none of 40 games"):
        annotated_game.shortest_win(Nobody())  # type: ignore[arg-type]
