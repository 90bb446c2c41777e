"""metrics.jsonl is complete whatever happens around it."""

from __future__ import annotations

import collections
import functools
import json
import multiprocessing
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from algorithms.reports.run_files import metric_rows, read_metrics
from algorithms.run_folder import environment, run_log
from algorithms.run_folder.atomic_files import RunFolderError
from algorithms.run_folder.run_log import RunLog


def test_every_row_is_on_disk_before_the_next_is_written(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write({"step": 0, "eval/regret_cp": 362.5})
    assert read_metrics(tmp_path) == [{"step": 0, "eval/regret_cp": 362.5}]
    log.write({"step": 1, "policy/entropy": float("nan")})
    text = (tmp_path / "metrics.jsonl").read_text()
    row = json.loads(text.splitlines()[1])
    assert row == {"step": 1, "policy/entropy": None}
    log.close()


def test_resuming_drops_the_rows_that_are_played_again_and_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 0}\n{"step": 1}\n{"step": 2}\n{"step": 3, "plies"')
    assert [row["step"] for row in read_metrics(tmp_path)] == [0, 1, 2]
    log = RunLog(tmp_path, resume_at=1)
    log.write({"step": 2, "plies": 9})
    log.close()
    assert read_metrics(tmp_path) == [{"step": 0}, {"step": 1}, {"step": 2, "plies": 9}]


def test_a_long_record_is_gone_on_from_in_little_memory(tmp_path: Path) -> None:
    names = [f"metric/{number}" for number in range(40)]
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for step in range(1_500):
            file.write(json.dumps({"step": step, **dict.fromkeys(names, step + 0.5)}) + "\n")
    tracemalloc.start()
    RunLog(tmp_path, resume_at=1_400).close()
    (last,) = collections.deque(metric_rows(tmp_path), maxlen=1)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert last["step"] == 1_400 and most < 2**20


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 0}\n{"st\n{"step": 2}\n')
    with pytest.raises(ValueError, match="line 2 is damaged"):
        read_metrics(tmp_path)


def test_a_folder_with_a_run_is_refused_unless_resumed(tmp_path: Path) -> None:
    RunLog(tmp_path).close()
    log = RunLog(
        tmp_path
    )  # a process that was killed before its first row: there is nothing to lose
    log.write({"step": 0})
    log.close()
    with pytest.raises(RunFolderError, match="--resume"):
        RunLog(tmp_path)
    RunLog(tmp_path, resume_at=0).close()
    (tmp_path / "metrics.jsonl").write_text("")  # a record that was lost is not begun over
    (tmp_path / "checkpoints" / "update-00000003").mkdir(parents=True)
    with pytest.raises(RunFolderError, match="--resume"):
        RunLog(tmp_path)


def test_a_second_writer_is_refused_with_the_process_of_the_first(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    pid = multiprocessing.current_process().pid
    code = (
        "import sys; from pathlib import Path; from algorithms.run_folder.run_log import RunLog\n"
        "RunLog(Path(sys.argv[1]), resume_at=0)"
    )
    root = Path(__file__).parents[2]
    second = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=root, capture_output=True, text=True
    )
    assert second.returncode == 1
    assert f"is being written by process {pid} on" in second.stderr
    log.close()


def test_a_missing_tracker_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install .*\[wandb\]"):
        RunLog(tmp_path, track="wandb")
    RunLog(tmp_path).close()  # the folder is free again


class Recording:
    """A tracker that keeps the steps it is shown, and then calls `write`."""

    last_step = -1

    def __init__(self, write: Callable[[float], object]) -> None:
        self.shown: list[float] = []
        self.closed = False
        self._write = write

    def write(self, row: Mapping[str, float]) -> None:
        self.shown.append(row["step"])
        self._write(row["step"])

    def close(self) -> None:
        self.closed = True


def test_a_tracker_that_fails_does_not_cost_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(step: float) -> None:
        if step == 1:
            raise ConnectionError("server gone")

    tracker = Recording(fail)
    monkeypatch.setattr(run_log, "make_tracker", lambda *_: tracker)
    log = RunLog(tmp_path, track="wandb")
    with pytest.warns(UserWarning, match="server gone"):
        for step in range(3):
            log.write({"step": step})
        log.close()
    assert tracker.shown == [0, 1] and not tracker.closed
    assert [row["step"] for row in read_metrics(tmp_path)] == [0, 1, 2]


def test_a_tracker_that_is_slow_holds_nobody_up_and_is_shown_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    tracker = Recording(lambda _: goes_on.wait())
    monkeypatch.setattr(run_log, "make_tracker", lambda *_: tracker)
    log = RunLog(tmp_path, track="wandb")
    for step in range(50):
        log.write({"step": step})
    assert len(tracker.shown) <= 1
    goes_on.set()
    log.close()
    assert tracker.shown == list(range(50)) and tracker.closed


@pytest.mark.parametrize("rows", [2, 9])
def test_a_tracker_that_hangs_is_left_with_a_warning_and_the_record_is_whole(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    tracker = Recording(lambda _: never.wait())
    monkeypatch.setattr(run_log, "make_tracker", lambda *_: tracker)
    monkeypatch.setattr(
        run_log, "Mirror", functools.partial(run_log.Mirror, most_waiting=4, most_s=0.2)
    )
    log = RunLog(tmp_path, track="wandb")
    why = "4 rows wait for it" if rows == 9 else r"did not end within 0\.2 s"
    with pytest.warns(UserWarning, match=why) as said:
        for step in range(rows):
            log.write({"step": step})
        log.close()
    assert len(said) == 1
    assert [row["step"] for row in read_metrics(tmp_path)] == list(range(rows))
    never.set()  # so that its thread ends with this test


def test_cpu_time_counts_a_child_while_it_runs_and_after_it_ended() -> None:
    code = "import time\nwhile time.process_time() < .2: pass\nprint(1, flush=True); input()"
    before = environment.cpu_seconds()
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.05)
    running = environment.cpu_seconds() - before
    child.communicate(b"\n")
    ended = environment.cpu_seconds() - before
    assert 0.15 < running < 1.5
    assert running - 0.05 < ended < 1.5


def test_the_environment_record_is_json_and_names_the_evaluator() -> None:
    record = environment.record(evaluator="builtin-1", device="cpu", num_threads=2)
    assert json.loads(json.dumps(record))["evaluator"] == "builtin-1"
    assert record["packages"]["torch"] and record["cpu"]
