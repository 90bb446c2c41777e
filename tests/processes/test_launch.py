"""`--num-processes` and `torchrun` as commands: their ends, and what they refuse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from algorithms.processes import launch
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from tests.commands.lab import ENV, chess_lab
from tests.training.runs import assert_same, final_state, rows_without_time

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc on Linux alone")
ROOT = Path(__file__).parents[2]
SMALL = ["train", "grpo", "--smoke", "--device", "cpu", "--env.evaluator", "builtin",
         "--num-shards", "2", "--checkpoint-interval-updates", "5", "--regularizer.ent-coef-final", "None",
         "--optimizer.lr-final", "None"]  # fmt: skip
LONG = ["--total-moves", "100000000"]


def begun(words: Sequence[str], run_dir: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("w") as file:
        return subprocess.Popen(
            [sys.executable, *words, "--run-dir", str(run_dir)],
            cwd=ROOT, env=ENV, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def in_two(run_dir: Path, log: Path) -> subprocess.Popen[bytes]:
    """`chess-lab train` in two processes, which trains until it is ended."""
    words = ["-m", "algorithms.cli", *SMALL, *LONG, "--num-processes", "2"]
    return begun(words, run_dir, log)


def ranks(pid: int, found: int = 2) -> list[int]:
    """The processes that carry the shards, by rank."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert len(children) == found
    return [int(child) for child in children]


def trained(run_dir: Path, log: Path, rows: int = 8) -> None:
    """Waits for some rows of a record."""
    metrics, deadline = run_dir / "metrics.jsonl", time.monotonic() + 120
    while not metrics.exists() or metrics.read_text().count("\n") < rows:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_is_killed_ends_the_run_by_name_and_leaves_none(
    rank: int, tmp_path: Path
) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "log"
    command = in_two(run_dir, log)
    trained(run_dir, log)
    processes = ranks(command.pid)
    os.kill(processes[rank], signal.SIGKILL)
    assert command.wait(timeout=60) == 137, log.read_text()
    assert not [pid for pid in processes if os.path.exists(f"/proc/{pid}")]
    said = " ".join(log.read_text().split())
    assert "Traceback" not in said
    assert f"process {rank} of 2 (pid {processes[rank]}) ended by SIGKILL" in said
    done = checkpoint.load_newest(run_dir / "checkpoints").state["progress"]["update"]
    assert done > 0


@pytest.mark.slow
def test_a_signal_ends_all_processes_at_one_update_with_a_checkpoint(tmp_path: Path) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "log"
    command = in_two(run_dir, log)
    trained(run_dir, log)
    processes = ranks(command.pid)
    command.send_signal(signal.SIGTERM)
    assert command.wait(timeout=60) == 143, log.read_text()
    assert not [pid for pid in processes if os.path.exists(f"/proc/{pid}")]
    done = checkpoint.load_newest(run_dir / "checkpoints").state["progress"]["update"]
    assert done == read_metrics(run_dir)[-1]["step"] > 0
    said = log.read_text()
    assert "stopped by SIGTERM" in said and "and the others were" not in said


def test_a_command_that_shall_outlive_its_terminal_is_not_asked_to_end() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:
        with launch._passed_on([]) as asked:
            signal.raise_signal(signal.SIGHUP)
        assert asked == []
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_a_command_that_is_killed_takes_its_processes_with_it(tmp_path: Path) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "log"
    command = in_two(run_dir, log)
    trained(run_dir, log, rows=2)
    processes = ranks(command.pid)
    command.kill()
    command.wait()
    deadline = time.monotonic() + 10
    while [pid for pid in processes if os.path.exists(f"/proc/{pid}")]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("whole_heldout")  # as in the processes
def test_torchrun_begins_again_after_a_kill_and_comes_to_the_same(tmp_path: Path) -> None:
    budget = ["--total-moves", str(20 * 16 * 4 * 8)]
    straight, run_dir, log = tmp_path / "straight", tmp_path / "run", tmp_path / "log"
    assert chess_lab(*SMALL, *budget, "--run-dir", straight).code == 0
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "2",
                "--standalone", "-m", "algorithms.cli"]  # fmt: skip
    with log.open("w") as file:
        command = subprocess.Popen(
            [sys.executable, *torchrun, *SMALL, *budget, "--run-dir", str(run_dir)],
            cwd=ROOT, stdout=file, stderr=subprocess.STDOUT,
            env={**ENV, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "GLOO_SOCKET_IFNAME": "lo"},
        )  # fmt: skip
    try:
        trained(run_dir, log, rows=8)
        os.kill(ranks(command.pid)[1], signal.SIGKILL)
        assert command.wait(timeout=300) == 0, log.read_text()
    finally:
        command.terminate()  # of no effect where it has ended; its processes end with it
        command.wait()
    assert_same(final_state(run_dir), final_state(straight))
    assert rows_without_time(run_dir) == rows_without_time(straight)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--num-processes", "3"], "num_shards is 2 and there are 3 processes"),
        (["--num-shards", "3"], "num_shards is 3 and rollout.num_envs 16"),
        (["--num-shards", "4", "--optimizer.minibatch-size", "3"], "optimizer.minibatch_size 3"),
        (["--num-processes", "0"], "--num-processes is 0"),
    ],
)
def test_shards_that_cannot_be_divided_are_refused_before_anything_starts(
    words: list[str], says: str, tmp_path: Path
) -> None:
    answer = chess_lab(*SMALL, *words, "--run-dir", tmp_path / "run")
    assert answer.code in (1, 2)
    assert says in " ".join(answer.err.split())
    assert not (tmp_path / "run").exists()
