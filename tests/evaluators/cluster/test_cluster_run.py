"""A training run whose engines are on a cluster makes the record of one whose engines are here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.stockfish, pytest.mark.slow]


def record(folder: Path, evaluator: str) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl of a smoke run, without what a clock says."""
    command = ["train", "grpo", "--smoke", "--env.evaluator", evaluator, "--run-dir", str(folder)]
    subprocess.run(
        [sys.executable, "-m", "algorithms.cli", *command], check=True, capture_output=True
    )
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {
            key: value
            for key, value in row.items()
            if not key.startswith("time/") and key != "crc32"  # which is that of the whole row
        }
        for row in rows
    ]


def test_the_record_of_a_run_is_the_same_with_engines_on_a_cluster(
    two_nodes: Any, tmp_path: Path
) -> None:
    here = record(tmp_path / "here", "stockfish:depth=4")
    spread = record(tmp_path / "spread", "ray:stockfish:depth=4")
    assert len(here) > 4 and spread == here
    told = [
        json.loads((tmp_path / name / "environment.json").read_text())["evaluator"]
        for name in ("here", "spread")
    ]
    assert told[0] == told[1]
