"""A comparison of real runs survives SIGKILL: nothing is repeated, nothing is lost, nothing changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from algorithms.run_folder.atomic_files import read_json

ROOT = Path(__file__).parents[2]
ARGUMENTS = (
    "--smoke", "--regularization", "none", "--budget-moves", "10240", "--jobs", "2",
)  # fmt: skip
PARTS = "tests.config.custom_parts"


def start(out: Path, asked: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "algorithms.cli", "compare", *asked, *ARGUMENTS, "--out", str(out)],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def states(out: Path) -> list[str]:
    return [each["state"] for each in read_json(out / "runs" / "cells.json").values()]


def result(out: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((out / "comparison.json").read_text())
    return values


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children die with it on Linux")
def test_a_comparison_that_was_killed_ends_like_one_that_was_not(tmp_path: Path) -> None:
    # The names of a user's own are said once more to the runs, whose folders are not believed in them.
    column, asked = f"{PARTS}-Mine+none", ("grpo", f"{PARTS}:Mine", "--network", f"{PARTS}:Linear")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = start(whole, asked)
    assert process.wait(timeout=250) == 0

    process = start(killed, asked)
    deadline = time.monotonic() + 250
    second = killed / "runs" / column / "seed-2" / "checkpoints" / "latest"
    while not (states(killed).count("finished") >= 1 and second.exists()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = states(killed).count("finished")
    assert 1 <= done < 4

    process = start(killed, asked)
    output, _ = process.communicate(timeout=250)
    assert process.returncode == 0, output
    assert f"4 cells, {done} finished before, {4 - done} to run" in output
    assert "resumed at update" in (second.parents[2] / "seed-2.log").read_text()
    assert result(killed)["cells"] == result(whole)["cells"]
    assert result(killed)["families"] == result(whole)["families"]
