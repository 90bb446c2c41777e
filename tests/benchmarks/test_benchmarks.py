from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.learning.algorithms import entropy_at

ROOT = Path(__file__).parents[2]


def test_entropy_at_a_regret_is_read_on_the_line_between_two_evaluations() -> None:
    curve = [[0, 400.0, 350.0, 3.0], [1, 300.0, 290.0, 2.0], [2, 100.0, 90.0, 1.0]]
    assert entropy_at(curve, 0.5) == pytest.approx(1.5)
    assert entropy_at(curve, 0.75) == pytest.approx(2.0)
    assert entropy_at(curve, 0.2) is None


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
