"""Each signal that asks a process to end: a checkpoint, no child left, and the signal's exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from algorithms.run_folder.stopping import raise_outside_imports, stop_on_signal
from tests.commands.lab import ENV, usual_signals
from tests.run_folder import boundaries
from tests.run_folder.boundaries import ended

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc on Linux alone")
ROOT = Path(__file__).parents[2]
LONG = ["train", "grpo", "--smoke", "--device", "cpu", "--total-moves", "100000000",
        "--diagnostics-interval-updates", "1000", "--checkpoint-interval-updates", "1000"]  # fmt: skip
BUILTIN = ["--env.evaluator", "builtin"]


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def begun(arguments: list[str], log: Path) -> int:
    """Process id of a fork of this process that runs a command, and has the usual signals."""
    # Tests that are started in the background ignore SIGINT, and `nohup` SIGHUP.
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    try:
        return boundaries.begun(arguments, log)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def trained(run_dir: Path, log: Path, rows: int = 3) -> None:
    """Waits for some rows of a record."""
    metrics, deadline = run_dir / "metrics.jsonl", time.monotonic() + 60
    while not metrics.exists() or metrics.read_text().count("\n") < rows:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)


@pytest.mark.stockfish
def test_ctrl_c_ends_a_run_with_a_checkpoint_and_its_engines_and_says_how_to_go_on(
    tmp_path: Path,
) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "log"
    run = begun([*LONG, "--env.evaluator", "stockfish:depth=1", "--env.num-engines", "2",
                 "--rollout.num-envs", "8", "--rollout.num-plies", "2", "--algorithm.group-size", "4",
                 "--optimizer.learning-rate", "1e-30",  # no policy is the best, and kept for that
                 "--run-dir", str(run_dir)], log)  # fmt: skip
    trained(run_dir, log)
    started = children(run)
    assert len(started) == 2
    sent = time.monotonic()
    os.kill(run, signal.SIGINT)
    assert ended(run) == 130, log.read_text()
    assert time.monotonic() - sent < 5
    assert not [pid for pid in started if os.path.exists(f"/proc/{pid}")]
    done = checkpoint.load_newest(run_dir / "checkpoints").state["progress"]["update"]
    assert done == read_metrics(run_dir)[-1]["step"] > 0
    said = log.read_text().replace(" \\\n   ", "")  # continued on a second line where it is long
    assert "stopped by SIGINT" in said and f"train --resume {run_dir}" in said


def test_a_second_signal_ends_a_run_at_once(tmp_path: Path) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "log"
    # A rollout of minutes: the first signal alone would wait for its end.
    run = begun([*LONG, *BUILTIN, "--rollout.num-plies", "64", "--rollout.num-envs", "512",
                 "--run-dir", str(run_dir)], log)  # fmt: skip
    trained(run_dir, log, rows=1)
    time.sleep(0.5)
    os.kill(run, signal.SIGHUP)
    time.sleep(0.1)
    sent = time.monotonic()
    os.kill(run, signal.SIGTERM)
    assert ended(run) == 143, log.read_text()
    assert time.monotonic() - sent < 2
    assert log.read_text().endswith("interrupted\n")


def test_a_run_that_shall_outlive_its_terminal_does(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:
        with stop_on_signal() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.name is None
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_a_run_whose_terminal_is_closed_writes_a_checkpoint(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    screen, terminal = os.openpty()
    code = (
        "import fcntl, sys, termios; from algorithms import cli\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0); sys.exit(cli.main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *LONG, *BUILTIN, "--run-dir", str(run_dir)],
        cwd=ROOT, env=ENV, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        preexec_fn=usual_signals,
    )  # fmt: skip
    os.close(terminal)
    metrics = run_dir / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < 3:
        os.read(screen, 4096)
        assert process.poll() is None
    os.close(screen)
    assert process.wait(timeout=60) == 129
    done = checkpoint.load_newest(run_dir / "checkpoints").state["progress"]["update"]
    assert done == json.loads(metrics.read_text().splitlines()[-1])["step"] > 0


def test_a_ctrl_c_that_a_library_swallowed_ends_the_command_before_it_trains() -> None:
    # Tests that are started in the background ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with raise_outside_imports():
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt), stop_on_signal():
                pass
        with raise_outside_imports(), stop_on_signal() as stop:
            assert stop.name is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_a_destructor_that_would_swallow_it_ends_the_process() -> None:
    code = (
        "import signal\n"
        "from algorithms.run_folder.stopping import raise_outside_imports\n"
        "class Dying:\n"
        "    def __del__(self): signal.raise_signal(signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with raise_outside_imports(): Dying()\n"
        "print('went on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=ENV, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("module", ["algorithms.cli", "torch.nn"])
def test_ctrl_c_while_modules_are_imported_prints_no_traceback(module: str, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "def interrupt(event, arguments):\n"
        f"    if event == 'import' and arguments[0] == {module!r}:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.addaudithook(interrupt)\n"
        "from chess_lab import main\n"
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *LONG, "--run-dir", str(tmp_path / "run")],
        cwd=ROOT, env=ENV, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ctrl_c_at_any_instant_of_the_start_prints_no_traceback(tmp_path: Path) -> None:
    code = (  # it says that it has begun from inside `main`: before that no Ctrl-C is its own
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from chess_lab import main\n"
        "def begun(event, arguments):\n"
        "    if event == 'import' and arguments[0] == 'algorithms': print(flush=True)\n"
        "sys.addaudithook(begun)\n"
        "sys.exit(main())"
    )
    for instant in range(0, 40, 12):
        run_dir = tmp_path / f"run-{instant}"
        process = subprocess.Popen(
            [sys.executable, "-c", code, *LONG, *BUILTIN, "--run-dir", str(run_dir)],
            cwd=ROOT, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "\n"
        time.sleep(instant / 10)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130 and "Traceback" not in errors, (instant, errors)
