"""Cells as processes on this machine."""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from algorithms.comparison.executors.executor import WAIT_S, Cell, Ended, Event, Started
from algorithms.run_folder.forks import Forks, environment_of_runs, kept_forks, launcher

# -P: a folder called `algorithms` where the grid is started is not taken for this package.
COMMAND = (sys.executable, "-P", "-m", "algorithms.cli")


def begun(command: Sequence[str], cell: Cell, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """The process of a cell; it ends with this thread.

    Args:
        command: the program and its first arguments.
        cell: what it runs.
        cwd: where; None: here.
    """
    with cell.log.open("ab") as file:
        # A session of its own: Ctrl-C in the terminal reaches the grid alone, which passes
        # on one SIGTERM; a second signal would end the run without its checkpoint.
        return subprocess.Popen(
            [*launcher(), *command, *cell.arguments],
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            env=environment_of_runs(), start_new_session=True, cwd=cwd,
        )  # fmt: skip


def share(cores: int, jobs: int) -> int:
    """Engines of each of `jobs` cells side by side: equal shares of the cores, at least 1."""
    return max(1, cores // jobs)


class LocalProcesses:
    """An `Executor`: a number of processes at a time, among which the cores are divided."""

    def __init__(
        self, jobs: int, *, command: Sequence[str] = COMMAND, forks: list[Forks] | None = None
    ) -> None:
        """Starts nothing yet.

        Args:
            jobs: processes at a time.
            command: the program and its first arguments; those of the cell follow.
            forks: processes that fork for each cell, in place of `command`; those that are missing are added.

        Raises:
            ValueError: `jobs` is below 1.
        """
        from algorithms.networks.device import (
            usable_cores,  # torch, which a node needs in its cells alone
        )

        if jobs < 1:
            raise ValueError(
                f"jobs is {jobs}: set it to the number of processes at a time, at least 1"
            )
        self.at_a_time: int | None = jobs
        self._command, self._forks = command, forks
        self._cores = usable_cores()
        self.engines = share(self._cores, jobs)
        self._running: dict[str, subprocess.Popen[bytes] | Forks] = {}
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def about(self, num_cells: int) -> str:
        """How many cells run at a time, and what each of them gets."""
        jobs = self.at_a_time
        cores = f"{self._cores} core{'s' if self._cores > 1 else ''}"
        engines = f"{self.engines} engine{'s' if self.engines > 1 else ''} each"
        crowded = "" if jobs is None or jobs <= self._cores else ", more cells than cores"
        return f"{jobs} at a time on {cores}: {engines}{crowded}"

    def begin(self, cell: Cell) -> None:
        """Starts a cell."""
        process = self._fork(cell) or begun(self._command, cell)
        self._running[cell.name] = process
        self._events.put(Started(cell.name, ""))
        threading.Thread(target=self._wait, args=(cell.name, process), daemon=True).start()

    def _fork(self, cell: Cell) -> Forks | None:
        if self._forks is None:
            return None
        idle = [each for each in self._forks if each.alive and each not in self._running.values()]
        if not idle:
            self._forks.append(Forks())
            idle = self._forks[-1:]
        idle[0].begin(cell.arguments, cell.log)
        return idle[0]

    def _wait(self, name: str, process: subprocess.Popen[bytes] | Forks) -> None:
        self._events.put(Ended(name, process.wait()))

    def events(self) -> list[Event]:
        """What has happened since the last call; waits for a moment where nothing has."""
        found: list[Event] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._events.get(timeout=WAIT_S))
            while True:
                found.append(self._events.get_nowait())
        for event in found:
            if isinstance(event, Ended):
                del self._running[event.name]
        return found

    def stop(self, number: signal.Signals) -> None:
        """Sends the signal to every cell."""
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)


@contextlib.contextmanager
def local_processes(jobs: int, *, forks: bool) -> Iterator[LocalProcesses]:
    """`LocalProcesses` of `chess-lab`.

    Args:
        jobs: processes at a time.
        forks: whether processes that have loaded everything fork for each cell, where the system can do that.
    """
    with kept_forks(forks) as kept:
        yield LocalProcesses(jobs, forks=kept)
