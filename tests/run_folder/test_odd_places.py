"""Clocks that jump, folders that cannot be written, and paths with blanks and other scripts."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from algorithms.run_folder import checkpoint
from algorithms.training.trainer import train
from tests.commands.lab import ENV
from tests.run_folder.boundaries import Boundaries, begun, command, ended, outcome, straight
from tests.training.runs import Watcher, assert_same, final_state, rows_without_time, tiny

COMMAND = (sys.executable, "-P", "-m", "algorithms.cli", "train", "grpo", "--smoke", "--device", "cpu",
           "--env.evaluator", "builtin", "--run-dir")  # fmt: skip


def test_a_clock_that_jumps_changes_nothing_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, jumped = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + jumped[0])

    def jump(row: Mapping[str, float]) -> None:
        jumped[0] = 1e9 if row["step"] % 2 else -1e9  # 32 years on, and back

    train(tiny(tmp_path / "jumps", 2), display=Watcher(jump))
    assert abs(time.time() - real()) > 9e8  # the process's clock is another one by now
    train(tiny(tmp_path / "jumps", 3), resume=True, display=Watcher(jump))
    jumped[0] = 0.0
    train(tiny(tmp_path / "straight", 3), display=Watcher())
    assert_same(final_state(tmp_path / "jumps"), final_state(tmp_path / "straight"))
    # The last update before the end of the first run is evaluated on all slices.
    last = [rows_without_time(tmp_path / name)[-1] for name in ("jumps", "straight")]
    assert last[0]["train/loss"] == last[1]["train/loss"]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone")
def test_a_disk_that_takes_a_tenth_of_a_second_for_each_change_costs_time_alone(
    tmp_path: Path,
) -> None:
    straight(command(tmp_path / "fast", updates=2))
    began = time.monotonic()
    slow = Boundaries(tmp_path / "slow", delay_s=0.1)
    log = tmp_path / "log"
    assert ended(begun(command(tmp_path / "slow", updates=2), log, slow)) == 0, log.read_text()
    assert time.monotonic() - began > 5  # more than fifty changes
    assert outcome(tmp_path / "slow") == outcome(tmp_path / "fast")


@pytest.mark.parametrize(
    "name",
    [
        "прогон 走る é; & 'quote'",
        pytest.param("a run with blanks", marks=pytest.mark.slow),
        pytest.param("-dash", marks=pytest.mark.slow),
    ],
)
def test_a_run_goes_on_in_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    train(tiny(folder, 1), display=Watcher())
    train(tiny(folder, 2), resume=True, display=Watcher())
    assert len(rows_without_time(folder)) == 3
    assert checkpoint.load_newest(folder / "checkpoints").state["progress"]["update"] == 2


def read_only(folder: Path, command: list[str]) -> list[str]:
    """The command, for which a folder cannot be written: by a mount of its own, or by its mode where that binds.

    Raises:
        RuntimeError: this process may write everywhere and may not mount.
    """
    there = shlex.quote(str(folder))
    mount = f"mount --bind {there} {there} && mount -o remount,bind,ro {there}"
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        tried = subprocess.run([*unshare, "sh", "-c", mount], capture_output=True)
        if tried.returncode == 0:
            return [*unshare, "sh", "-c", f"{mount} && exec {shlex.join(command)}"]
    if os.geteuid() == 0:
        raise RuntimeError(
            "root may write anywhere, and mounting is not allowed here: run as a user"
        )
    folder.chmod(0o555)
    return command


@pytest.mark.slow
def test_a_run_folder_that_cannot_be_written_is_named_and_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    ended = subprocess.run(
        read_only(place, [*COMMAND, str(place / "run")]), capture_output=True, text=True, env=ENV
    )
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    assert str(place) in ended.stderr.replace("\n  ", "")
    place.chmod(0o755)
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_a_run_needs_no_home_that_can_be_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ended = subprocess.run(
        read_only(home, [*COMMAND, str(tmp_path / "run")]),
        capture_output=True,
        text=True,
        env={**ENV, "HOME": str(home)},
    )
    assert ended.returncode == 0, ended.stderr
    assert checkpoint.load_newest(tmp_path / "run" / "checkpoints").state["progress"]["update"] > 0
