"""A grid of runs, each a `chess-lab` process of its own, that survives being killed at any instant.

    OUT/cells.json        the command of each run and its result, replaced atomically
    OUT/NAME/             a run's run folder; result.json in it marks the run as finished
    OUT/NAME.log          the output of its process, beside the folder

A finished run is never run again. An unfinished one goes on from its checkpoint, or starts again where it
has none. A failed one is reported and left alone, and the others go on.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import IO, Any

from algorithms.comparison.grid_runs import RESULT_FILE, GridResult, GridRun, Outcome, State
from algorithms.networks.settings import ONCE_THE_ONLY_NETWORK
from algorithms.run_folder.files import lock_folder, read_json, replace_json
from algorithms.run_folder.forks import Forks, environment_of_runs, launcher
from algorithms.run_folder.stopping import SIGNALS, Stop, stop_on_signal

# -P: a folder called `algorithms` where the grid is started is not taken for this package.
COMMAND = (sys.executable, "-P", "-m", "algorithms.cli")
CELLS_FILE = "cells.json"
TAIL_LINES = 8


class GridError(RuntimeError):
    """The grid cannot run here; the message says why and what to do."""


def lock_grid(out: Path) -> IO[str]:
    """`lock_folder` of a grid's folder; GridError where another process runs the grid."""
    return lock_folder(out, ".grid.lock", GridError)


def run_grid(
    grid_runs: Sequence[GridRun],
    out: Path,
    *,
    jobs: int = 1,
    say: Callable[[str], None] = print,
    command: Sequence[str] = COMMAND,
    retry_failed: bool = False,
    forks: list[Forks] | None = None,
) -> GridResult:
    """The result of every run, after those that were not finished have run.

    SIGINT, SIGTERM or SIGHUP is passed on as SIGTERM, upon which `chess-lab train` writes a checkpoint; a
    second one kills the runs. Calling again with the same runs continues.

    Args:
        grid_runs: with different names and folders.
        out: the grid's folder; made where missing, locked while this runs.
        jobs: processes at a time.
        say: shows a line at the start and the end of every run.
        command: the program and its first arguments; those of the run follow.
        retry_failed: run the runs that failed in an earlier call again.
        forks: processes that fork for each run, in place of `command`; those that are missing are added.

    Raises:
        ValueError: `jobs` is below 1, or two runs share a name or a folder, or one lies outside.
        GridError: another process runs this grid, or a folder holds something else.
    """
    _check(grid_runs, out, jobs)
    out.mkdir(parents=True, exist_ok=True)
    with lock_grid(out):
        return _Grid(grid_runs, out, say, command, retry_failed, forks).run(jobs)


class _Grid:
    """One call of `run_grid`."""

    def __init__(
        self,
        grid_runs: Sequence[GridRun],
        out: Path,
        say: Callable[[str], None],
        command: Sequence[str],
        retry_failed: bool,
        forks: list[Forks] | None,
    ) -> None:
        self.grid_runs, self.out, self.say = grid_runs, out, say
        self.command, self.forks = command, forks
        self.records: dict[str, dict[str, Any]] = read_json(out / CELLS_FILE)
        self.stop = Stop()
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes] | Forks] = {}
        self._ran: list[str] = []
        for grid_run in grid_runs:
            self._admit(grid_run, retry_failed)
        self._save()

    def _admit(self, grid_run: GridRun, retry_failed: bool) -> None:
        """Brings the record of a run up to date with its folder."""
        record = self.records.get(grid_run.name)
        if record is None:
            if grid_run.folder.exists():
                raise GridError(
                    f"{grid_run.folder} is there and {CELLS_FILE} does not know it: move it away, or "
                    "choose another folder"
                )
            record = {}
        elif not grid_run.asks_for(record["arguments"]):
            old, new = " ".join(record["arguments"]), " ".join(grid_run.arguments)
            raise GridError(
                f"{grid_run.folder} was begun with other settings.\n  then: {old}\n  now:  {new}\n"
                "One folder holds one grid: choose another folder, or give the settings of then (where they "
                f"name no policy.network, it was {ONCE_THE_ONLY_NETWORK})"
            )
        state: State = record.get("state", "waiting")
        if state == "failed":
            record = {"state": "waiting"} if retry_failed else record
        elif grid_run.result() is not None:
            record = {"state": "finished", "exit_code": 0}
        else:
            record = {"state": "waiting"}
        self.records[grid_run.name] = {
            "folder": str(grid_run.folder.relative_to(self.out)),
            "arguments": list(grid_run.arguments),
            **record,
        }

    def run(self, jobs: int) -> GridResult:
        """Runs what is waiting."""
        waiting = [grid_run for grid_run in self.grid_runs if self._state(grid_run) == "waiting"]
        done = sum(self._state(grid_run) == "finished" for grid_run in self.grid_runs)
        self.say(f"{len(self.grid_runs)} cells, {done} finished before, {len(waiting)} to run")
        if self.forks is not None:
            self.forks[:] = [each for each in self.forks if each.alive]
            while len(self.forks) < min(jobs, len(waiting)):
                self.forks.append(Forks())
        with stop_on_signal() as self.stop, ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(self._run_one, grid_run) for grid_run in waiting]
            try:
                self._watch(futures)
            except BaseException:  # a second signal, or a fault of our own: nothing is left behind
                self.stop.name = self.stop.name or "SIGTERM"
                self._signal(signal.SIGKILL)
                raise
        return GridResult(
            tuple(self._outcome(grid_run) for grid_run in self.grid_runs),
            tuple(self._ran),
            self.stop.name,
        )

    def _watch(self, futures: list[Future[None]]) -> None:
        """Waits for all runs, and passes on a signal to those that run."""
        left, passed_on = set(futures), False
        while left:
            ended, left = wait(left, timeout=0.1, return_when=FIRST_COMPLETED)
            for future in ended:
                future.result()
            if self.stop.name is not None and not passed_on:
                passed_on = True
                self.say(f"{self.stop.name}: the running cells write a checkpoint and end")
                self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            for process in self._processes.values():
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)

    def _run_one(self, grid_run: GridRun) -> None:
        """Runs one run to its end, in a thread."""
        arguments = self._prepare(grid_run)
        began = time.monotonic()
        with self._lock:
            if self.stop.name is not None:
                return
            self._ran.append(grid_run.name)
            self._record(grid_run, state="running")
            process = self._processes[grid_run.name] = self._begin(arguments, grid_run.log)
        code = process.wait()
        with self._lock:
            del self._processes[grid_run.name]
            if self.forks is not None and isinstance(process, Forks):
                self.forks.append(process if process.alive else Forks())
            state = _state_after(grid_run, code, killed=self.stop.name is not None)
            tail = _last_lines(grid_run.log) if state == "failed" else []
            self._record(grid_run, state=state, exit_code=code, log_tail=tail)
        self.say(f"{grid_run.name}: {state} after {time.monotonic() - began:.0f} s")

    def _begin(self, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes] | Forks:
        """The process that makes a run."""
        if self.forks is not None:
            process = self.forks.pop()
            process.begin(arguments, log)
            return process
        with log.open("ab") as file:
            # A session of its own: Ctrl-C in the terminal reaches the grid alone, which passes
            # on one SIGTERM; a second signal would end the run without its checkpoint.
            return subprocess.Popen(
                [*launcher(), *self.command, *arguments],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                env=environment_of_runs(), start_new_session=True,
            )  # fmt: skip

    def _prepare(self, grid_run: GridRun) -> list[str]:
        """What the command is given; the folder of a run that starts anew is removed before."""
        result = ["--json", str(grid_run.folder / RESULT_FILE)]
        if grid_run.resume and _has_checkpoint(grid_run.folder):
            again = [grid_run.arguments[0], *grid_run.said_again]
            return [*again, "--resume", str(grid_run.folder), *result]
        if grid_run.folder.exists():
            shutil.rmtree(grid_run.folder)
        grid_run.folder.parent.mkdir(parents=True, exist_ok=True)
        return [*grid_run.arguments, "--run-dir", str(grid_run.folder), *result]

    def _state(self, grid_run: GridRun) -> State:
        state: State = self.records[grid_run.name]["state"]
        return state

    def _outcome(self, grid_run: GridRun) -> Outcome:
        record = self.records[grid_run.name]
        tail = tuple(record.get("log_tail", ()))
        return Outcome(grid_run, record["state"], record.get("exit_code"), tail)

    def _record(self, grid_run: GridRun, **values: Any) -> None:
        kept = {key: self.records[grid_run.name][key] for key in ("folder", "arguments")}
        self.records[grid_run.name] = kept | values
        self._save()

    def _save(self) -> None:
        replace_json(self.out / CELLS_FILE, self.records)


def _check(grid_runs: Sequence[GridRun], out: Path, jobs: int) -> None:
    if jobs < 1:
        raise ValueError(f"jobs is {jobs}: set it to the number of processes at a time, at least 1")
    for what, values in (
        ("names", [grid_run.name for grid_run in grid_runs]),
        ("folders", [str(grid_run.folder.resolve()) for grid_run in grid_runs]),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"{what} {twice} occur more than once: give each cell its own")
    inside = out.resolve()
    for grid_run in grid_runs:
        if inside not in grid_run.folder.resolve().parents:
            raise ValueError(
                f"{grid_run.name}: {grid_run.folder} is not below {out}: set it to one that is"
            )


def _state_after(grid_run: GridRun, code: int, *, killed: bool) -> State:
    """What an ended process leaves: a run that was asked to stop is no failure, it can be continued."""
    if code == 0 and grid_run.result() is not None:
        return "finished"
    asked = [*SIGNALS, *([signal.SIGKILL] if killed else [])]
    return "stopped" if code in {s for each in asked for s in (-each, 128 + each)} else "failed"


def _last_lines(path: Path) -> list[str]:
    """Last lines of a log, without colours and empty lines."""
    text = path.read_text(encoding="utf-8", errors="replace")[-20_000:]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in text.splitlines()]
    return [line for line in lines if line][-TAIL_LINES:]


def _has_checkpoint(folder: Path) -> bool:
    """Whether a run can be continued: a kill may fall into the writing of its config.json."""
    return any((folder / "checkpoints").glob("update-*")) and bool(
        read_json(folder / "config.json")
    )
