"""TRL itself, in its own environment: against the numbers that are stored of it, and with our callback."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from algorithms.foreign import diagnose_log, read_log

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.trl
def test_trl_itself_still_gives_the_stored_numbers(tmp_path: Path, stored: dict[str, Any]) -> None:
    python, fresh = ROOT / ".venv-trl/bin/python", tmp_path / "fresh.json"
    assert python.exists(), "TRL's environment is missing: run `make trl-env`"
    subprocess.run(
        [python, "-W", "ignore", ROOT / "tests/oracles/trl_vectors.py", fresh],
        check=True,
        timeout=600,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
    )
    recomputed = json.loads(fresh.read_text())
    assert recomputed["seed"] == stored["seed"]

    def compare(ours: Any, theirs: Any, where: str) -> None:
        if isinstance(ours, dict):
            assert ours.keys() == theirs.keys(), where
            for key in ours:
                compare(ours[key], theirs[key], f"{where}/{key}")
        elif isinstance(ours, list):
            assert len(ours) == len(theirs), where
            for index, pair in enumerate(zip(ours, theirs, strict=True)):
                compare(*pair, f"{where}/{index}")
        elif isinstance(ours, float):
            assert theirs == pytest.approx(ours, rel=1e-6, abs=1e-6), where
        else:
            assert theirs == ours, where

    compare(stored["inputs"], recomputed["inputs"], "inputs")
    compare(stored["results"], recomputed["results"], "results")


@pytest.mark.slow
@pytest.mark.trl
def test_the_callback_leaves_every_weight_of_a_run_of_trl_and_tells_what_the_log_does_not(
    tmp_path: Path,
) -> None:
    python = ROOT / ".venv-trl/bin/python"
    assert python.exists(), "TRL's environment is missing: run `make trl-env`"
    subprocess.run(
        [python, "-W", "ignore", "-m", "benchmarks.foreign.trl_callback", "--out", tmp_path,
         "--seeds", "7", "--json", tmp_path / "found.json"],
        check=True, cwd=ROOT, timeout=600, env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["of"] == 6 and found["same"] == 6

    def named(run: str) -> list[str]:
        diagnosis = diagnose_log(read_log(tmp_path / run / "trainer_state.json"))
        return [cause.name for cause in diagnosis.causes]

    assert named("on/hot1.5__7")[0] == "temperature_mismatch" and named("off/hot1.5__7") == []
    assert named("on/dropout__7")[0] == "forward_mismatch"
    assert named("on/sound__7") == [] and named("on/sound_steps4__7") == []
