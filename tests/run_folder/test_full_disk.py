"""A full disk is reported with the file that it refused, and what was there before is there still."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from algorithms.reports.run_files import read_metrics
from algorithms.run_folder.atomic_files import (
    RunFolderError,
    lock_folder,
    replace_file,
    replace_json,
)
from algorithms.run_folder.run_log import RunLog
from tests.commands.lab import ENV
from tests.training.runs import assert_same, final_state, rows_without_time

ROOT = Path(__file__).parents[2]


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """The system refuses, with EFBIG, to let a file grow past `size` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_row_that_the_disk_refuses_names_the_record_and_how_to_go_on(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write({"step": 0})
    with (
        files_up_to(40),
        pytest.raises(RunFolderError, match=r"metrics\.jsonl could not .*too large.* --resume"),
    ):
        for step in range(1, 9):
            log.write({"step": step, "policy/entropy": 3.0})
    log.close()  # and writes nothing that was refused
    assert (tmp_path / "metrics.jsonl").stat().st_size == 40
    assert read_metrics(tmp_path) == [{"step": 0}]
    log = RunLog(tmp_path, resume_at=0)
    log.write({"step": 1})
    log.close()
    assert read_metrics(tmp_path) == [{"step": 0}, {"step": 1}]


def test_a_file_that_the_disk_refuses_is_named_and_as_it_was(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    replace_file(config, b"before")
    with files_up_to(10), pytest.raises(OSError, match=r"File too large: '.*/config\.json'"):
        replace_json(config, {"a": "long" * 10})
    assert config.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    with files_up_to(10), pytest.raises(OSError, match=r"File too large: '.*/\.lock'"):
        lock_folder(tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is full")
def test_a_run_goes_on_where_its_output_cannot_be_written() -> None:
    code = (
        "from algorithms.run_folder.console import make_display\n"
        "display = make_display(10)\n"
        "display.start('title', {}); display.say('one'); display.stop(); print('two')"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    said = "standard output is lost (No space left on device): the run goes on\n"
    assert (done.returncode, done.stderr) == (0, said)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_on_a_disk_of_any_size_names_what_was_refused_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    smoke = ["train", "grpo", "--smoke", "--env.evaluator", "builtin", "--device", "cpu",
             "--diagnostics-interval-updates", "1"]  # fmt: skip
    command = [sys.executable, "-m", "algorithms.cli"]
    straight = tmp_path / "straight"
    subprocess.run([*command, *smoke, "--run-dir", straight], cwd=ROOT, env=ENV, check=True)
    refused = set()
    for size in (300, 3000, 600_000):
        run_dir = tmp_path / f"run-{size}"

        def limit(size: int = size) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        done = subprocess.run(
            [*command, *smoke, "--run-dir", run_dir], cwd=ROOT, env=ENV, capture_output=True,
            text=True, preexec_fn=limit,
        )  # fmt: skip
        assert done.returncode == 1 and "Traceback" not in done.stderr, (size, done.stderr)
        assert f"{run_dir}/" in done.stderr and "too large" in done.stderr, (size, done.stderr)
        refused.add(done.stderr.partition(f"{run_dir}/")[2].split("'")[0].split(" ")[0])
        again = subprocess.run([*command, "train", "--resume", run_dir], cwd=ROOT, env=ENV)
        if again.returncode:  # it had not got as far as a configuration
            subprocess.run([*command, *smoke, "--run-dir", run_dir], cwd=ROOT, env=ENV, check=True)
        assert rows_without_time(run_dir) == rows_without_time(straight), size
        assert_same(final_state(run_dir), final_state(straight))
    assert len(refused) == 3, refused
