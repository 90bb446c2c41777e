"""Forks of one process stand where processes of their own would: exit codes, logs and signals are theirs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from algorithms.comparison.executors import LocalProcesses
from algorithms.comparison.grid import run_grid
from algorithms.comparison.grid_runs import GridRun
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder.forks import Forks, kept_forks

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone")
SMOKE = ["train", "grpo", "--smoke", "--env.evaluator", "builtin", "--device", "cpu",
         "--diagnostics-interval-updates", "1000"]  # fmt: skip
LONG = [*SMOKE, "--total-moves", "10000000", "--run-dir"]


@pytest.fixture(scope="module")
def forks() -> Iterator[list[Forks]]:
    with kept_forks(True) as kept:
        assert kept == []
        kept.append(Forks())
        yield kept


def begun(forks: Forks, arguments: list[str], run_dir: Path) -> None:
    """Starts a long run and waits until it has trained."""
    forks.begin([*arguments, str(run_dir)], run_dir.with_suffix(".log"))
    deadline = time.monotonic() + 60
    metrics = run_dir / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < 2:
        assert forks.alive and time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_runs_in_forks_are_those_in_processes_of_their_own(
    tmp_path: Path, forks: list[Forks]
) -> None:
    found = []
    for name, kept in (("forks", forks), ("processes", None)):
        out = tmp_path / name
        runs = [GridRun(each, (*SMOKE, "--seed", seed), out / each) for each, seed in
                (("a", "1"), ("b", "2"))]  # fmt: skip
        bad = GridRun("bad", ("train", "grpoo"), out / "bad")
        grid = run_grid([*runs, bad], out, LocalProcesses(1, forks=kept), say=lambda line: None)
        assert [each.state for each in grid.outcomes] == ["finished", "finished", "failed"]
        assert grid.outcomes[-1].exit_code == 2
        assert "did you mean 'grpo'?" in " ".join(bad.log.read_text().split())
        rows = [row for run in runs for row in read_metrics(run.folder)]
        found.append([{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows])
        assert json.loads((runs[0].folder / "result.json").read_text())["scored_moves"] == 2048
    assert found[0] == found[1] and len(forks) == 1


def test_sigterm_reaches_the_run_which_writes_a_checkpoint_and_the_process_lives_on(
    tmp_path: Path, forks: list[Forks]
) -> None:
    run_dir = tmp_path / "run"
    begun(forks[0], LONG, run_dir)
    forks[0].send_signal(signal.SIGTERM)
    assert forks[0].wait() == 128 + signal.SIGTERM
    assert (run_dir / "checkpoints" / "latest").exists() and forks[0].alive
    forks[0].begin(["train"], tmp_path / "usage.log")
    assert forks[0].wait() == 2
    assert "usage: chess-lab train" in (tmp_path / "usage.log").read_text()


@pytest.mark.slow
def test_sigkill_ends_the_process_and_its_run(tmp_path: Path) -> None:
    with kept_forks(True) as kept:
        assert kept is not None
        kept.append(Forks())
        begun(kept[0], LONG, tmp_path / "run")
        pid = kept[0]._process.pid
        (run,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        kept[0].send_signal(signal.SIGKILL)
        assert kept[0].wait() == -signal.SIGKILL and not kept[0].alive
        deadline = time.monotonic() + 10
        while os.path.exists(f"/proc/{run}") and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not os.path.exists(f"/proc/{run}")


def test_forks_are_not_made_where_they_are_not_wanted() -> None:
    with kept_forks(False) as kept:
        assert kept is None
