"""A grid repeats no finished run, hides no broken one, and may be killed at any instant."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from algorithms.comparison.executors import LocalProcesses
from algorithms.comparison.grid import GRID_LOCK, GridError, run_grid
from algorithms.comparison.grid_runs import GridResult, GridRun
from algorithms.run_folder.atomic_files import (
    RunFolderError,
    lock_folder,
    read_json,
    replace_json,
)
from tests.forks import fork, kill

ROOT = Path(__file__).parents[2]
FAKE = (sys.executable, "-S", str(Path(__file__).with_name("fake_lab.py")))


def grid_runs(out: Path, *pairs: str, resume: bool = True) -> list[GridRun]:
    """Cells from "behaviour:name"."""
    split = [pair.split(":") for pair in pairs]
    return [GridRun(name, (behaviour,), out / name, resume) for behaviour, name in split]


def starts(out: Path, name: str) -> list[str]:
    path = out / f"{name}.starts"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def quiet(line: str) -> None:
    pass


def ran(
    asked: list[GridRun], out: Path, *, jobs: int = 1, retry_failed: bool = False
) -> GridResult:
    executor = LocalProcesses(jobs, command=FAKE)
    return run_grid(asked, out, executor, say=quiet, retry_failed=retry_failed)


def drive(out: Path, *pairs: str) -> int:
    """A process that runs the grid."""
    executor = LocalProcesses(2, command=FAKE)
    cells = grid_runs(out, *pairs)
    return fork(lambda: os._exit(run_grid(cells, out, executor, say=quiet).exit_code))


@pytest.mark.parametrize(
    ("then", "now", "equal"),
    [
        ("train grpo --seed 1", "train grpo --policy.network move_net --seed 1", True),
        ("train grpo --seed 1", "train grpo --policy.network resnet --seed 1", False),
        ("train grpo --policy.network a:B", "train grpo --policy.network a:B", True),
        # 0.002 is the step size of resnet, 0.003 that of move_net.
        (
            "train grpo",
            "train grpo --policy.network move_net --optimizer.learning-rate 0.003",
            True,
        ),
        (
            "train grpo --policy.network resnet",
            "train grpo --policy.network resnet --optimizer.learning-rate 0.002",
            True,
        ),
        ("train grpo --seed 1", "train grpo --policy.network move_net --seed 2", False),
        ("train grpo", "train rloo --policy.network move_net", False),
        ("causes run kl_trap --seed 1", "causes run kl_trap --seed 1", True),
        ("causes run kl_trap --seed 1", "causes run kl_trap --seed 1 --cured", False),
    ],
)
def test_a_default_that_is_named_asks_for_the_same_run(then: str, now: str, equal: bool) -> None:
    grid_run = GridRun("a", tuple(now.split()), Path("a"))
    assert grid_run.asks_for(then.split()) is equal


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_finished_cells_are_not_repeated_and_a_failure_stops_nothing_and_is_told(
    tmp_path: Path,
) -> None:
    asked = grid_runs(tmp_path, "fails:a", "ends:b", "is-unfinished-at-exit-0:c", "is-killed:d")
    first = ran(asked, tmp_path, jobs=2)
    assert [each.state for each in first.outcomes] == ["failed", "finished", "failed", "failed"]
    assert first.exit_code == 1 and first.stopped_by is None
    assert first.outcomes[3].exit_code == -signal.SIGKILL
    record = read_json(tmp_path / "cells.json")["a"]
    assert record["exit_code"] == 3 and record["log_tail"] == ["the reason", "is here"]
    told = "\n".join(first.lines())
    assert "FAILED a: exit code 3" in told and "is here" in told and "b" not in told.split()

    again = ran([*asked, *grid_runs(tmp_path, "ends:e")], tmp_path)
    assert starts(tmp_path, "e") == ["begun"] and again.exit_code == 1
    assert [len(starts(tmp_path, name)) for name in "abc"] == [1, 1, 1]
    assert "is here" in "\n".join(again.lines())
    ran(asked, tmp_path, retry_failed=True)
    assert [len(starts(tmp_path, name)) for name in "abc"] == [2, 1, 2]
    assert list(read_json(tmp_path / "cells.json")) == ["a", "b", "c", "d", "e"]


def test_after_sigkill_the_children_are_dead_and_the_rest_is_continued(tmp_path: Path) -> None:
    pairs = "ends:done", "waits-with-checkpoint:half", "waits-without:begun", "ends:later"
    driver = drive(tmp_path, *pairs)
    ready = [tmp_path / name / "ready" for name in ("half", "begun")]
    wait_for(lambda: all(path.exists() for path in ready))
    children = [
        int((tmp_path / f"{name}.starts").read_text().split()[1]) for name in ("half", "begun")
    ]
    kill(driver)
    if sys.platform.startswith("linux"):
        wait_for(lambda: not any(map(alive, children)))
    else:
        for child in children:
            os.kill(child, signal.SIGKILL)

    (tmp_path / "go").write_text("")
    result = ran(grid_runs(tmp_path, *pairs), tmp_path, jobs=2)
    assert result.exit_code == 0 and starts(tmp_path, "later") == ["begun"]
    assert starts(tmp_path, "done") == ["begun"]
    assert starts(tmp_path, "half") == ["begun", "resumed"]
    assert starts(tmp_path, "begun") == ["begun", "begun"]
    assert not (tmp_path / "begun" / "checkpoints").exists()


def test_sigterm_reaches_the_children_and_the_same_call_continues(tmp_path: Path) -> None:
    pairs = "waits-with-checkpoint:a", "waits-with-checkpoint:b", "ends:c"
    driver = drive(tmp_path, *pairs)
    wait_for(lambda: all((tmp_path / name / "ready").exists() for name in "ab"))
    os.kill(driver, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1]) == 143
    states = {name: each["state"] for name, each in read_json(tmp_path / "cells.json").items()}
    assert states == {"a": "stopped", "b": "stopped", "c": "waiting"}
    assert starts(tmp_path, "c") == []
    result = ran(grid_runs(tmp_path, *pairs), tmp_path)
    assert result.exit_code == 0 and starts(tmp_path, "a") == ["begun", "resumed"]


def test_a_cell_that_failed_stays_failed_whatever_it_wrote(tmp_path: Path) -> None:
    asked = grid_runs(tmp_path, "fails-with-a-result:a")
    for _ in range(2):
        (outcome,) = ran(asked, tmp_path).outcomes
        assert (outcome.state, outcome.exit_code) == ("failed", 1)
    assert len(starts(tmp_path, "a")) == 1
    ran(asked, tmp_path, retry_failed=True)
    assert len(starts(tmp_path, "a")) == 2


def test_a_cell_that_cannot_be_resumed_starts_anew_without_what_it_left(tmp_path: Path) -> None:
    asked = grid_runs(tmp_path, "fails:a", resume=False)
    ran(asked, tmp_path)
    (tmp_path / "a" / "checkpoints" / "update-00000001").mkdir(parents=True)
    (tmp_path / "a" / "config.json").write_text('{"a": 1}')
    ran(asked, tmp_path, retry_failed=True)
    assert starts(tmp_path, "a") == ["begun", "begun"]
    assert not (tmp_path / "a" / "checkpoints").exists()


@pytest.mark.parametrize("result", [
    "", '{"stopped', "{}", '{"stopped_by": "SIGTERM"}', '{"result": {"stopped_by": "SIGINT"}}', "[1]",
])  # fmt: skip
def test_a_result_that_a_kill_cut_or_that_tells_of_a_signal_is_no_end(
    tmp_path: Path, result: str
) -> None:
    grid_run = grid_runs(tmp_path, "ends:a")[0]
    assert grid_run.result() is None
    grid_run.folder.mkdir()
    (grid_run.folder / "result.json").write_text(result)
    assert grid_run.result() is None
    (grid_run.folder / "result.json").write_text('{"stopped_by": "entropy below 0.5"}')
    assert grid_run.result() == {"stopped_by": "entropy below 0.5"}


def test_a_config_that_a_kill_cut_makes_the_cell_start_anew(tmp_path: Path) -> None:
    asked = grid_runs(tmp_path, "ends:a")
    ran(asked, tmp_path)
    for name, text in (("result.json", ""), ("config.json", '{"algo')):
        (tmp_path / "a" / name).write_text(text)
    (tmp_path / "a" / "checkpoints" / "update-00000001").mkdir(parents=True)
    assert ran(asked, tmp_path).exit_code == 0
    assert starts(tmp_path, "a") == ["begun", "begun"]


def test_other_settings_in_the_same_folder_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    ran(grid_runs(tmp_path, "ends:a"), tmp_path)
    with pytest.raises(GridError, match="then: ends\n  now:  fails"):
        ran(grid_runs(tmp_path, "fails:a"), tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(GridError, match="does not know it: move it away"):
        ran(grid_runs(tmp_path, "ends:mine"), tmp_path)
    assert (tmp_path / "mine").is_dir() and grid_runs(tmp_path, "ends:a")[0].result() is not None


def test_a_second_process_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    locked = lock_folder(tmp_path, GRID_LOCK)
    with locked, pytest.raises(RunFolderError, match=f"process {os.getpid()} on"):
        ran(grid_runs(tmp_path, "ends:a"), tmp_path)
    assert ran(grid_runs(tmp_path, "ends:a"), tmp_path).exit_code == 0


def test_a_file_that_is_replaced_is_the_old_one_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    replace_json(path, {"a": 1})
    monkeypatch.setattr(json, "dumps", lambda *a, **k: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        replace_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
