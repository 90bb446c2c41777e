from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from benchmarks.learning.algorithms import entropy_at, spread
from benchmarks.speed.rivals import python_chess_match
from chess_env.matches.arena import draw_openings
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import to_fen

ROOT = Path(__file__).parents[2]


def test_entropy_at_a_regret_is_read_on_the_line_between_two_evaluations() -> None:
    curve = [[0, 400.0, 350.0, 3.0], [1, 300.0, 290.0, 2.0], [2, 100.0, 90.0, 1.0]]
    assert entropy_at(curve, 0.5) == pytest.approx(1.5)
    assert entropy_at(curve, 0.75) == pytest.approx(2.0)
    assert entropy_at(curve, 0.2) is None


def test_a_spread_says_where_not_every_seed_arrived() -> None:
    assert spread([1.0, 3.0, 2.0]) == "2.00 (1.00 to 3.00)"
    assert spread([1.0, None, 2.0]) == "2 of 3 seeds"


@pytest.mark.parametrize("seed", [2, 3])
def test_both_rivals_of_the_arena_play_the_same_game_by_the_same_rules(seed: int) -> None:
    class FirstMove(random.Random):
        """Chance that always takes the first legal move, however it is asked."""

        def random(self) -> float:
            return 0.0

        def choice(self, moves: Any) -> Any:
            return moves[0]

    def choose(planes: np.ndarray, actions: np.ndarray) -> int:
        # A rule that depends on all that a policy sees.
        seen = int(planes.astype(np.int64).sum()) + seed
        return int(np.argsort(actions)[seen % len(actions)])

    lengths = set()
    for opening in draw_openings(make_start_positions("openings"), seed, 3):
        plies = {
            play(chess.Board(to_fen(opening)), True, choose, FirstMove(), 300)
            for play in (python_chess_match.tuned, python_chess_match.plain)
        }
        assert len(plies) == 1
        lengths |= plies
    assert max(lengths) > 10


@pytest.mark.slow
def test_the_benchmark_of_the_diagnostics_runs(tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.speed.diagnostics", "--smoke", "--json", target]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600)
    record = json.loads(target.read_text())
    assert record["benchmark"] == "diagnostics" and record["rows"]


@pytest.mark.slow
def test_the_matrix_of_causes_runs_once_and_a_broken_cell_fails_its_pair(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.learning.causes", "--smoke", "--seeds", "1"]
    command += ["--causes", "temperature_mismatch"]
    runs, target = tmp_path / "runs", tmp_path / "causes.json"
    command += ["--runs", str(runs), "--json", str(target)]
    first = subprocess.run(command, cwd=ROOT, check=True, timeout=600, capture_output=True)
    second = subprocess.run(command, cwd=ROOT, check=True, timeout=600, capture_output=True)
    assert b"0 finished before, 2 to run" in first.stdout
    assert b"2 finished before, 0 to run" in second.stdout
    record = json.loads(target.read_text())
    assert record["failed"] == []
    mismatch = record["causes"]["temperature_mismatch"]
    assert mismatch["predicates"][0]["holds"] == [True]
    assert mismatch["diagnoses"] == {"on": [["temperature_mismatch"]], "cured": [[]]}
    assert len(mismatch["curves"]["on"][0]["moves"]) == 3

    cells = json.loads((runs / "cells.json").read_text())
    cells["temperature_mismatch-on-1"] |= {"state": "failed", "exit_code": 1, "log_tail": ["why"]}
    (runs / "cells.json").write_text(json.dumps(cells))
    done = subprocess.run(command, cwd=ROOT, timeout=600, capture_output=True, text=True)
    assert done.returncode == 1
    assert "FAILED temperature_mismatch-on-1: exit code 1" in done.stdout
    record = json.loads(target.read_text())
    assert record["failed"] == ["temperature_mismatch-on-1"]
    assert record["causes"]["temperature_mismatch"]["diagnoses"] == {"on": [None], "cured": [[]]}
    assert not any(
        each["holds"][0] for each in record["causes"]["temperature_mismatch"]["predicates"]
    )
