"""A run that is killed in its first second goes on: in its folder by --resume, or by the same command once more."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from algorithms.run_folder.atomic_files import METRICS_FILE
from tests.forks import Forks
from tests.training.runs import assert_same, final_state, rows_without_time

pytestmark = [  # `test_kills.py` has a quick one
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone"),
]
COMMANDS = {
    "train": ["train", "grpo", "--smoke", "--env.evaluator", "builtin", "--device", "cpu",
              "--total-moves", "1024", "--diagnostics-interval-updates", "1"],
    "pretrain": ["pretrain", "--smoke", "--evaluator", "builtin", "--device", "cpu",
                 "--num-positions", "2000", "--shard-size", "1000", "--total-steps", "20",
                 "--eval-interval-steps", "10", "--log-interval-steps", "10"],
}  # fmt: skip
LONGEST_S = 120.0


def ended(forks: Forks, arguments: list[str], log: Path) -> int:
    """Exit code of a run that nobody kills."""
    forks.begin(arguments, log)
    return forks.wait()


def killed(forks: Forks, arguments: list[str], run_dir: Path, after: str, delay_s: float) -> bool:
    """Whether a run was killed `delay_s` after a file of its folder was there; it may have ended before."""
    forks.begin([*arguments, "--run-dir", str(run_dir)], run_dir.with_suffix(".log"))
    pid, deadline = forks._process.pid, time.monotonic() + LONGEST_S
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while not (run := children.read_text().split()) or not (run_dir / after).exists():
        assert time.monotonic() < deadline, run_dir.with_suffix(".log").read_text()
        time.sleep(2e-4)  # a core for the process that loads, while the other has the next test
    time.sleep(delay_s)
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(int(run[0]), signal.SIGKILL)
    return forks.wait() == -signal.SIGKILL


def assert_goes_on(forks: Forks, command: str, run_dir: Path, straight: Path) -> None:
    """One of the two commands that a user would try goes on; the run is the one that nobody killed."""
    log = run_dir.with_suffix(".log")
    begun = [path.name for path in run_dir.rglob("*")]
    if ended(forks, [command, "--resume", str(run_dir)], log) != 0:
        again = [*COMMANDS[command], "--run-dir", str(run_dir)]
        assert ended(forks, again, log) == 0, (begun, log.read_text())
    assert rows_without_time(run_dir) == rows_without_time(straight), begun
    assert_same(final_state(run_dir), final_state(straight))
    assert not list(run_dir.rglob("*partial*"))


@pytest.fixture(scope="module")
def straight(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """From a command to the folder of its run that nobody killed."""

    @functools.cache
    def made(command: str) -> Path:
        run_dir = tmp_path_factory.mktemp(command) / "straight"
        arguments = [*COMMANDS[command], "--run-dir", str(run_dir)]
        assert ended(forks, arguments, run_dir.with_suffix(".log")) == 0
        return run_dir

    return made


def test_a_run_killed_between_its_record_and_its_first_checkpoint_goes_on(
    tmp_path: Path, forks: Forks, straight: Callable[[str], Path]
) -> None:
    run_dir = tmp_path / "run"
    assert killed(forks, COMMANDS["train"], run_dir, METRICS_FILE, delay_s=0.0)
    assert_goes_on(forks, "train", run_dir, straight("train"))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("command", "kills"), [("train", 8), ("pretrain", 4)])
def test_a_run_killed_at_any_instant_of_its_first_second_goes_on(
    tmp_path: Path,
    forks: Forks,
    straight: Callable[[str], Path],
    command: str,
    kills: int,
) -> None:
    rng, hit = np.random.default_rng(kills), 0
    for kill in range(kills):
        run_dir = tmp_path / f"run-{kill}"
        after = (".lock", METRICS_FILE)[kill % 2]
        # Half of them in the first moments, in which one file after the other appears.
        delay_s = rng.uniform(0.0, 0.02) if kill % 4 < 2 else rng.uniform(0.0, 1.0)
        hit += killed(forks, COMMANDS[command], run_dir, after, delay_s)
        assert_goes_on(forks, command, run_dir, straight(command))
        shutil.rmtree(run_dir)
    assert hit >= kills // 2
