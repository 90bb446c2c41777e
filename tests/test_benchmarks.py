from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.entropy_prediction import agreement

ROOT = Path(__file__).parents[1]


def test_a_perfect_predictor_lies_on_the_identity_line() -> None:
    measured = np.array([-3.0, -1.0, 2.0])
    assert agreement(measured, measured) == pytest.approx(
        {"identity_r2": 1.0, "sign_agreement": 1.0, "correlation": 1.0}
    )


def test_a_predictor_of_the_wrong_scale_correlates_without_lying_on_the_line() -> None:
    measured = np.array([-3.0, -1.0, 1.0, 3.0])
    figures = agreement(measured, 3 * measured)  # residuals 4, variance 1, in units of the squares
    assert figures == pytest.approx(
        {"identity_r2": -3.0, "sign_agreement": 1.0, "correlation": 1.0}
    )


def test_the_mean_as_a_predictor_explains_nothing() -> None:
    measured = np.array([-1.0, -2.0, -3.0, 2.0])
    predicted = np.full(4, -1.0) + np.array([0, 0, 0, 1e-9])
    figures = agreement(measured, predicted)
    assert figures["identity_r2"] == pytest.approx(0.0, abs=1e-6)
    assert figures["sign_agreement"] == 0.75


@pytest.mark.slow
@pytest.mark.parametrize("script", ["entropy_prediction", "diagnostics"])
def test_the_benchmarks_of_the_diagnostics_run(script: str, tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    command = [sys.executable, f"benchmarks/{script}.py", "--smoke", "--json", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600)
    record = json.loads(target.read_text())
    assert record["benchmark"] == script
    assert record["rows"]
