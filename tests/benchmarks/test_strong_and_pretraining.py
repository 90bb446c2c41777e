"""What the benchmarks of strong play and of pretraining compute from their runs."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from algorithms.networks.weights import ship
from benchmarks.learning import annotated_game, pretraining, strong

ROOT = Path(__file__).parents[2]


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
