"""TRL itself, in its own environment, against the numbers that are stored of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

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
