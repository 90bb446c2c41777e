"""A process killed while it labels or while it learns leaves a run that is continued to the same end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from algorithms import cli
from algorithms.run_folder import checkpoint
from tests.training.runs import assert_same, rows_without_time

ROOT = Path(__file__).parents[2]
ARGUMENTS = [
    "pretrain", "--smoke", "--evaluator", "builtin", "--device", "cpu", "--num-positions", "12000",
    "--shard-size", "1000", "--log-interval-steps", "10", "--eval-interval-steps", "10",
    "--total-steps", "120",
]  # fmt: skip


def killed_when(run_dir: Path, arguments: list[str], ready: Callable[[], bool]) -> None:
    """Runs the command in a process of its own, and kills it once `ready()`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "algorithms.cli", *arguments],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not ready():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("whole_heldout")  # as in the process
def test_a_run_killed_while_labelling_and_while_learning_ends_as_one_that_was_not(
    tmp_path: Path,
) -> None:
    whole, run_dir = tmp_path / "whole", tmp_path / "run"
    assert cli.main([*ARGUMENTS, "--run-dir", str(whole)]) == 0
    labels, metrics = run_dir / "labels", run_dir / "metrics.jsonl"

    killed_when(
        run_dir,
        [*ARGUMENTS, "--run-dir", str(run_dir)],
        lambda: len(list(labels.glob("shard-*.npz"))) >= 3,
    )
    assert len(list(labels.glob("shard-*.npz"))) < 12
    resume = ["pretrain", "--resume", str(run_dir)]
    killed_when(run_dir, resume, lambda: metrics.read_text().count('"pretrain/loss"') >= 3)
    assert metrics.read_text().count('"pretrain/loss"') < 12
    assert cli.main(resume) == 0

    shards = [sorted(folder.glob("labels/shard-*.npz")) for folder in (whole, run_dir)]
    assert len(shards[0]) == len(shards[1]) == 12
    for one, other in zip(*shards, strict=True):
        assert one.read_bytes() == other.read_bytes()
    ends = [checkpoint.load_newest(folder / "checkpoints") for folder in (whole, run_dir)]
    assert_same(ends[1].weights, ends[0].weights)
    assert_same(ends[1].state["optimizer"], ends[0].state["optimizer"])
    assert rows_without_time(run_dir) == rows_without_time(whole)
