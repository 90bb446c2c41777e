"""A grid of runs, each a `chess-lab` process of its own, that survives being killed at any instant.

    OUT/cells.json        the command of each run and its result, replaced atomically
    OUT/NAME/             a run's run folder; result.json in it marks the run as finished
    OUT/NAME.log          the output of its process, beside the folder

A finished run is never run again. An unfinished one goes on from its checkpoint, or starts again where it
has none. A failed one is reported and left alone, and the others go on.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from algorithms.comparison.executors import Ended, Event, Executor, Lost, Started
from algorithms.comparison.grid_runs import (
    GridResult,
    GridRun,
    Outcome,
    State,
    last_lines,
    state_after,
)
from algorithms.run_folder.atomic_files import RunFolderError, lock_folder, read_json, replace_json
from algorithms.run_folder.stopping import Stop, stop_on_signal

CELLS_FILE = "cells.json"
GRID_LOCK = ".grid.lock"


class GridError(RunFolderError):
    """The grid cannot run here; the message says why and what to do."""


class StoppedError(RuntimeError):
    """A signal ended a grid early; calling again continues.

    Attributes:
        grid: how far it came.
    """

    def __init__(self, grid: GridResult) -> None:
        super().__init__(f"stopped by {grid.stopped_by}")
        self.grid = grid


def run_grid(
    grid_runs: Sequence[GridRun],
    out: Path,
    executor: Executor,
    *,
    say: Callable[[str], None] = print,
    retry_failed: bool = False,
) -> GridResult:
    """The result of every run, after those that were not finished have run.

    SIGINT, SIGTERM or SIGHUP is passed on as SIGTERM, upon which `chess-lab train` writes a checkpoint; a
    second one kills the runs. Calling again with the same runs continues.

    Args:
        grid_runs: with different names and folders, all of them below `out`.
        out: the grid's folder; made where missing, locked while this runs.
        executor: runs them.
        say: shows a line at the start and the end of every run.
        retry_failed: run the runs that failed in an earlier call again.

    Raises:
        RunFolderError: another process runs this grid, or a folder holds something else (GridError).
    """
    out.mkdir(parents=True, exist_ok=True)
    with lock_folder(out, GRID_LOCK):
        return _Grid(grid_runs, out, executor, say, retry_failed).run()


class _Grid:
    """One call of `run_grid`."""

    def __init__(
        self,
        grid_runs: Sequence[GridRun],
        out: Path,
        executor: Executor,
        say: Callable[[str], None],
        retry_failed: bool,
    ) -> None:
        self.grid_runs, self.out, self.executor, self.say = grid_runs, out, executor, say
        self.records: dict[str, dict[str, Any]] = read_json(out / CELLS_FILE)
        self.stop = Stop()
        self._waiting: list[GridRun] = []
        self._given: dict[str, GridRun] = {}  # to the executor
        self._began: dict[str, float] = {}
        self._took: list[float] = []  # seconds of each cell that ended
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
                "One folder holds one grid: choose another folder, or give the settings of then"
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

    def run(self) -> GridResult:
        """Runs what is waiting."""
        self._waiting = [each for each in self.grid_runs if self._state(each) == "waiting"]
        done = self._count("finished")
        self.say(
            f"{len(self.grid_runs)} cells, {done} finished before, {len(self._waiting)} to run"
        )
        if self._waiting:
            self.say(self.executor.about(len(self._waiting)))
        with stop_on_signal() as self.stop:
            try:
                self._work()
            except BaseException:  # a second signal, or a fault of our own: nothing is left behind
                self.stop.name = self.stop.name or "SIGTERM"
                self._waiting = []
                self.executor.stop(signal.SIGKILL)
                while self._given:
                    self._take(self.executor.events())
                raise
        outcomes = tuple(self._outcome(grid_run) for grid_run in self.grid_runs)
        return GridResult(outcomes, self.stop.name)

    def _work(self) -> None:
        """Gives out what is waiting until all has ended, and passes on a signal to what runs."""
        passed_on = False
        while self._waiting or self._given:
            if self.stop.name is None:
                self._give()
            elif not passed_on:
                passed_on, self._waiting = True, []
                if self._given:
                    self.say(f"{self.stop.name}: the running cells write a checkpoint and end")
                self.executor.stop(signal.SIGTERM)
            self._take(self.executor.events())

    def _give(self) -> None:
        """Gives cells to the executor, as many as it takes."""
        most = self.executor.at_a_time
        while self._waiting and (most is None or len(self._given) < most):
            grid_run = self._waiting.pop(0)
            self._given[grid_run.name] = grid_run
            self.executor.begin(grid_run)

    def _take(self, events: Sequence[Event]) -> None:
        """Records what has happened, and says it."""
        for event in events:
            if isinstance(event, Started):
                again = ": its node was lost, it runs again" if event.name in self._began else ""
                self._began[event.name] = time.monotonic()
                node = {"node": event.node} if event.node else {}
                self._record(event.name, state="running", **node)
                self.say(f"{event.name}: started{f' on {event.node}' if event.node else ''}{again}")
            elif isinstance(event, Ended):
                self._end(event)
            elif isinstance(event, Lost):
                self._lose(event)
            else:
                self.say(event.text)

    def _end(self, event: Ended) -> None:
        grid_run = self._given.pop(event.name)
        state = state_after(grid_run, event.exit_code, killed=self.stop.name is not None)
        tail = last_lines(grid_run.log) if state == "failed" else []
        self._record(event.name, state=state, exit_code=event.exit_code, log_tail=tail)
        seconds = time.monotonic() - self._began.pop(event.name, time.monotonic())
        self._took.append(seconds)
        self.say(f"{event.name}: {state} after {seconds:.0f} s; {self._counts()}{self._left()}")
        for line in tail:
            self.say(f"    {line}")

    def _left(self) -> str:
        """How long the rest takes if it goes on so, where the executor says how many run at a time."""
        rest, at_a_time = len(self._waiting) + len(self._given), self.executor.at_a_time
        if not rest or at_a_time is None:
            return ""
        seconds = sum(self._took) / len(self._took) * rest / min(at_a_time, rest)
        return f", about {seconds / 60:.0f} min left" if seconds >= 60 else ""

    def _lose(self, event: Lost) -> None:
        del self._given[event.name]
        if self.stop.name is not None:
            ran = event.name in self._began
            self._record(event.name, state="stopped" if ran else "waiting")
        else:
            self._record(event.name, state="failed", log_tail=[event.why])
            self.say(f"{event.name}: failed, {event.why}; {self._counts()}")

    def _counts(self) -> str:
        """How far the grid is."""
        found = [f"{self._count(state)} {state}" for state in ("finished", "failed", "running")]
        return f"{', '.join(found)} of {len(self.grid_runs)}"

    def _count(self, state: State) -> int:
        return sum(self._state(grid_run) == state for grid_run in self.grid_runs)

    def _state(self, grid_run: GridRun) -> State:
        state: State = self.records[grid_run.name]["state"]
        return state

    def _outcome(self, grid_run: GridRun) -> Outcome:
        record = self.records[grid_run.name]
        tail = tuple(record.get("log_tail", ()))
        return Outcome(grid_run, record["state"], record.get("exit_code"), tail)

    def _record(self, name: str, **values: Any) -> None:
        kept = {key: self.records[name][key] for key in ("folder", "arguments")}
        self.records[name] = kept | values
        self._save()

    def _save(self) -> None:
        replace_json(self.out / CELLS_FILE, self.records)
