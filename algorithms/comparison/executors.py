"""Who runs the cells of a grid: the processes of this machine, or the nodes of a Ray cluster (`ray_executor`)."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from algorithms.comparison.grid_runs import GridRun
from algorithms.core.checks import require
from algorithms.run_folder.stopping import environment_of_runs, launcher
from chess_env.threads import usable_cores

WAIT_S = 0.1
"""Longest wait for an event, so that a signal is passed on soon."""

# -P: a folder called `algorithms` where the grid is started is not taken for this package.
COMMAND = (sys.executable, "-P", "-m", "algorithms.cli")


@dataclasses.dataclass(frozen=True)
class Started:
    """The cell `name` runs. `node` is the machine's name, "" for this one."""

    name: str
    node: str


@dataclasses.dataclass(frozen=True)
class Ended:
    """The process of the cell `name` ended with `exit_code`, negative for the signal that killed it."""

    name: str
    exit_code: int


@dataclasses.dataclass(frozen=True)
class Lost:
    """The cell `name` runs nowhere any more, without an exit code: `why` says what became of it."""

    name: str
    why: str


@dataclasses.dataclass(frozen=True)
class Note:
    """Something that the user should know, in `text`."""

    text: str


Event = Started | Ended | Lost | Note


class Executor(Protocol):
    """Runs cells, and tells of each start and end."""

    @property
    def at_a_time(self) -> int | None:
        """Cells that it takes at a time; None where it queues all that it is given."""

    def about(self, num_cells: int) -> str:
        """How many of `num_cells` cells, at least 1, run at a time, and what each of them gets."""

    def begin(self, grid_run: GridRun) -> None:
        """Starts a cell, or queues it."""

    def events(self) -> list[Event]:
        """What has happened since the last call, in order; waits for `WAIT_S` where nothing has."""

    def stop(self, number: signal.Signals) -> None:
        """Sends the signal to every cell that runs; one that is queued is lost."""


def begun(words: Sequence[str], log: Path, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """The process of a command, which ends with this one and appends its output to `log`."""
    with log.open("ab") as file:
        # A session of its own: Ctrl-C in the terminal reaches the grid alone, which passes
        # on one SIGTERM; a second signal would end the run without its checkpoint.
        return subprocess.Popen(
            [*launcher(), *words],
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            env=environment_of_runs(), start_new_session=True, cwd=cwd,
        )  # fmt: skip


class LocalProcesses:
    """An `Executor`: a number of processes at a time, among which the cores are divided."""

    def __init__(self, jobs: int, *, command: Sequence[str] = COMMAND) -> None:
        """Starts nothing yet.

        Args:
            jobs: processes at a time, at least 1.
            command: the program and its first arguments; those of the cell follow.
        """
        self.at_a_time: int | None = jobs
        self._command, self._cores = command, usable_cores()
        self._engines = max(1, self._cores // jobs)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._events: list[Event] = []

    def about(self, num_cells: int) -> str:
        """How many cells run at a time, and what each of them gets."""
        jobs = self.at_a_time
        cores = f"{self._cores} core{'s' if self._cores > 1 else ''}"
        engines = f"{self._engines} engine{'s' if self._engines > 1 else ''} each"
        crowded = "" if jobs is None or jobs <= self._cores else ", more cells than cores"
        return f"{jobs} at a time on {cores}: {engines}{crowded}"

    def begin(self, grid_run: GridRun) -> None:
        """Starts a cell."""
        words = [*self._command, *grid_run.words(self._engines)]
        self._running[grid_run.name] = begun(words, grid_run.log)
        self._events.append(Started(grid_run.name, ""))

    def events(self) -> list[Event]:
        """What has happened since the last call; waits for a moment where nothing has."""
        if not self._events:
            self._look()
        if not self._events:
            time.sleep(WAIT_S)
            self._look()
        found, self._events = self._events, []
        return found

    def _look(self) -> None:
        for name, process in list(self._running.items()):
            code = process.poll()
            if code is not None:
                del self._running[name]
                self._events.append(Ended(name, code))

    def stop(self, number: signal.Signals) -> None:
        """Sends the signal to every cell."""
        for process in self._running.values():
            process.send_signal(number)


def add_options(parser: argparse.ArgumentParser, *, jobs: int) -> None:
    """Adds --jobs, --ray and --cell-cpus.

    Args:
        parser: of the command.
        jobs: cells at a time on one machine, where nobody says; `jobs_of` gives it then.
    """
    parser.add_argument(
        "--jobs",
        type=int,
        help=f"cells at a time, which share the cores ({jobs}; with --ray as many as fit)",
    )
    parser.add_argument(
        "--ray", action="store_true", help="spread the cells over the Ray cluster of RAY_ADDRESS"
    )
    parser.add_argument(
        "--cell-cpus", type=int, metavar="N",
        help="CPUs and engines of each cell with --ray (1)",
    )  # fmt: skip
    parser.set_defaults(default_jobs=jobs)


def jobs_of(options: argparse.Namespace) -> int | None:
    """Cells at a time, from the options of `add_options`; None: as many as fit into the cluster."""
    jobs: int | None = options.jobs
    return options.default_jobs if jobs is None and not options.ray else jobs


@contextlib.contextmanager
def open_executor(
    out: Path, *, jobs: int | None, ray: bool, cell_cpus: int | None, evaluator: str | None = None
) -> Iterator[Executor]:
    """The executor that is asked for.

    Args:
        out: the folder of the cells, which every node of a cluster must see.
        jobs: cells at a time; None: 1, or with `ray` as many as fit.
        ray: spread the cells over a Ray cluster.
        cell_cpus: CPUs and engines of each cell there; None: 1.
        evaluator: name of what scores their moves, which must be the same on every node; None where it comes with
            the project.

    Raises:
        ValueError: a number below 1, or `cell_cpus` without `ray`.
        ClusterError: the cluster cannot run these cells.
    """
    require(
        jobs is None or jobs >= 1,
        f"jobs is {jobs}: set it to the number of cells at a time, at least 1",
    )
    if ray:
        from algorithms.comparison.ray_executor import ray_cluster

        cpus = 1 if cell_cpus is None else cell_cpus
        require(cpus >= 1, f"--cell-cpus is {cpus}: set it to the CPUs of each cell, at least 1")
        with ray_cluster(out, jobs=jobs, cell_cpus=cpus, evaluator=evaluator) as executor:
            yield executor
    else:
        require(
            cell_cpus is None,
            "--cell-cpus is for --ray: on one machine --jobs decides, and the cells share its cores",
        )
        yield LocalProcesses(jobs or 1)
