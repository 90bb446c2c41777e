"""Cells on the nodes of a Ray cluster: each is a task of Ray, which places it, and runs it again if its node is lost.

A task starts the cell's process on its node and waits for its end. The process dies with the task, and the task with
its node or with this program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from algorithms.comparison.executors import (
    COMMAND,
    WAIT_S,
    Ended,
    Event,
    Lost,
    Note,
    Started,
    begun,
)
from algorithms.comparison.grid_runs import GridRun
from algorithms.run_folder import environment
from algorithms.run_folder.atomic_files import RUN_WRITES, RunFolderError, lock_folder
from chess_env.evaluators import EngineError
from chess_env.evaluators.cluster import connect, disconnect, source_hash

MOST_STARTS = 3
"""A cell that breaks every node should not get them all."""
NODES_S = 60.0
"""Longest wait for the report of a node, which may have to start a process of Ray and load the project."""
LOCK_S = 120.0
"""Longest wait for the lock of a lost cell's folder: its process may live a little longer than its node is known."""
MARKER_S = 5.0
"""Longest wait for the marker: a network file system may show a new file a little late."""

_ROOT = Path(__file__).resolve().parents[2]


class ClusterError(RuntimeError):
    """The cluster cannot run these cells; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What every node must have.

    Attributes:
        marker: a file in the folder of the cells.
        token: what that file holds.
        evaluator: name of what scores the moves; None where it comes with the project.
        has: what -> version, of all that decides the numbers of a run, where the grid runs.
    """

    marker: Path
    token: str
    evaluator: str | None
    has: dict[str, str | None]


def had(evaluator: str | None) -> dict[str, str | None]:
    """What -> version, of all that decides the numbers of a run on this machine, `evaluator` (a name) included."""
    return {
        "Python": platform.python_version(),
        **environment.versions(("ray", *environment.PACKAGES)),
        "this project's code": source_hash(*(_ROOT / name for name in ("chess_env", "algorithms"))),
        "the evaluator": None if evaluator is None else _evaluator_id(evaluator),
    }


def look(wanted: Wanted) -> tuple[str, str | None]:
    """(this machine's name, why no cell may run here; None where it may)."""
    host, here = socket.gethostname(), had(wanted.evaluator)
    for what, version in wanted.has.items():
        if here.get(what) != version:
            return host, (
                f"node {host} has {what} {here.get(what)} and the machine of the grid {version}: "
                "install the same there, or take the node out of the cluster"
            )
    if not _sees(wanted):
        return host, (
            f"node {host} does not see {wanted.marker.parent}: choose an --out on a file system that all nodes "
            "share, under the same path"
        )
    return host, None


def _sees(wanted: Wanted) -> bool:
    until = time.monotonic() + MARKER_S
    while True:
        try:
            return wanted.marker.read_text(encoding="utf-8") == wanted.token
        except OSError:
            if time.monotonic() > until:
                return False
            time.sleep(0.2)


def _evaluator_id(name: str) -> str:
    """The id of the evaluator here, or that there is none and why."""
    from chess_env.evaluators import make_evaluator

    try:
        evaluator = make_evaluator(name, 1, None)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        return f"none ({error})"
    evaluator.close()
    return str(evaluator.id)


def run_cell(
    grid_run: GridRun, engines: int, wanted: Wanted, cwd: Path, python_path: str | None, starts: Any
) -> int | tuple[str, str]:
    """The exit code of a cell's process, negative for a signal; or (this node's id, why it does not run it).

    Args:
        grid_run: the cell.
        engines: of it.
        wanted: what the node must have.
        cwd: the folder in which the grid was started, for modules of the user's own.
        python_path: PYTHONPATH there.
        starts: the queue that is told of the start.
    """
    import ray

    host, why = look(wanted)
    if why is not None:
        return ray.get_runtime_context().get_node_id(), why
    starts.put((grid_run.name, host))
    if python_path is not None:
        os.environ["PYTHONPATH"] = python_path
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # as on every other node: a cell asks Ray for no GPU
    _wait_for_lock(grid_run.folder)
    words = [*COMMAND, *grid_run.words(engines)]
    process = begun(words, grid_run.log, cwd if cwd.is_dir() else None)
    try:
        while (code := process.poll()) is None:
            time.sleep(WAIT_S)  # `wait` would not hear of the end of the task
    except KeyboardInterrupt:  # the task is cancelled
        process.terminate()
        code = process.wait()
    return code


def _wait_for_lock(folder: Path) -> None:
    """Waits while a lost start of this cell has a process all the same, which holds the lock of its folder."""
    until = time.monotonic() + LOCK_S
    while folder.exists() and time.monotonic() < until:
        try:
            lock_folder(folder, written=RUN_WRITES).close()
            return
        except RunFolderError:
            time.sleep(1.0)


class RayCluster:
    """An `Executor`: the nodes of a cluster that Ray has been connected with."""

    def __init__(self, ray: Any, wanted: Wanted, *, jobs: int | None, cell_cpus: int) -> None:
        """Asks every node for its report.

        Raises:
            ClusterError: a node may not run cells, or none has enough CPUs.
        """
        from ray.util.queue import Queue

        self.at_a_time, self._engines = jobs, cell_cpus
        self._ray, self._wanted = ray, wanted
        self._given: dict[Any, GridRun] = {}  # reference of its task -> the run
        self._refused: set[str] = set()
        self._fitting = {
            node["NodeID"]: int(node["Resources"].get("CPU", 0)) // cell_cpus
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= cell_cpus
        }
        if not self._fitting:
            raise ClusterError(
                f"no node of the cluster has {cell_cpus} CPUs: lower --cell-cpus, or add nodes "
                "(`ray start --address HEAD:6379 --num-cpus N`)"
            )
        self._check()
        self._starts = Queue(
            actor_options={"num_cpus": 0, **_on(ray.get_runtime_context().get_node_id())}
        )

    def _check(self) -> None:
        """Asks every node for its report, all at once; ClusterError names those that may not run cells."""
        ask = self._ray.remote(look)
        names = {node["NodeID"]: node["NodeManagerHostname"] for node in self._ray.nodes()}
        asked = {
            ask.options(num_cpus=0, max_retries=0, **_on(node)).remote(self._wanted): names[node]
            for node in self._fitting
        }
        answered, silent = self._ray.wait(list(asked), num_returns=len(asked), timeout=NODES_S)
        found = [f"node {asked[each]} has not answered for {NODES_S:.0f} s" for each in silent]
        for each in answered:
            try:
                _, why = self._ray.get(each)
            except self._ray.exceptions.RayError as error:
                why = f"node {asked[each]} cannot run this project: {_last_line(error)}"
            found += [why] if why else []
        if found:
            raise ClusterError("\n".join(dict.fromkeys(found)))

    def about(self, num_cells: int) -> str:
        """How many cells run at a time, and what each of them gets."""
        fitting = sum(self._fitting.values())
        jobs = min(num_cells, fitting if self.at_a_time is None else self.at_a_time)
        each = "1 CPU and 1 engine" if self._engines == 1 else f"{self._engines} CPUs and engines"
        nodes = f"{len(self._fitting)} node{'s' if len(self._fitting) > 1 else ''}"
        return f"up to {jobs} at a time on {nodes}: {each} each"

    def begin(self, grid_run: GridRun) -> None:
        """Gives a cell to Ray, which starts it where there is room."""
        refused = {"ray.io/node-id": f"!in({','.join(sorted(self._refused))})"}
        task = self._ray.remote(run_cell).options(
            num_cpus=self._engines, max_retries=MOST_STARTS - 1,
            **({"label_selector": refused} if self._refused else {}),
        )  # fmt: skip
        python_path = os.environ.get("PYTHONPATH")
        given = grid_run, self._engines, self._wanted, Path.cwd(), python_path, self._starts
        self._given[task.remote(*given)] = grid_run

    def events(self) -> list[Event]:
        """What has happened since the last call; waits for a moment where nothing has."""
        if self._given:
            ended, _ = self._ray.wait(list(self._given), num_returns=1, timeout=WAIT_S)
        else:
            ended = []
            time.sleep(WAIT_S)
        # After the wait: who has ended has told of its start before.
        starts = self._starts.get_nowait_batch(self._starts.qsize())
        found: list[Event] = [Started(name, host) for name, host in starts]
        return found + [event for each in ended for event in self._answered(each)]

    def _answered(self, task: Any) -> list[Event]:
        """What a task that has ended tells."""
        grid_run = self._given.pop(task)
        try:
            answer = self._ray.get(task)
        except self._ray.exceptions.RayError as error:  # such as a log that cannot be written
            return [Lost(grid_run.name, _last_line(error))]
        if isinstance(answer, int):
            return [Ended(grid_run.name, answer)]
        node, why = answer
        known = node in self._refused  # one that joined later: the others go on
        self._refused.add(node)
        if self._refused >= {each["NodeID"] for each in self._ray.nodes() if each["Alive"]}:
            raise ClusterError(f"no node is left: {why}")  # such as where the code was edited
        self.begin(grid_run)
        return [] if known else [Note(why)]

    def stop(self, number: signal.Signals) -> None:
        """Ends every cell: after a checkpoint, or at once by SIGKILL."""
        for task in self._given:
            self._ray.cancel(task, force=number == signal.SIGKILL)


def _on(node: str) -> dict[str, Any]:
    """The option of Ray for what shall run on this node alone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def _last_line(error: Exception) -> str:
    """What an error of Ray says in the end: the lines before are a trace through its own code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


@contextlib.contextmanager
def ray_cluster(
    out: Path, *, jobs: int | None, cell_cpus: int, evaluator: str | None
) -> Iterator[RayCluster]:
    """The cluster of RAY_ADDRESS, or the one that runs on this machine, checked; its cells end with the context.

    Args:
        out: the folder of the cells, which every node must see; made where missing.
        jobs: cells at a time; None: as many as fit.
        cell_cpus: CPUs and engines of each cell.
        evaluator: name of what scores the moves; None where it comes with the project.

    Raises:
        ClusterError: Ray is not installed, there is no cluster, or it cannot run these cells.
    """
    out.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    marker = out / f".seen-by-all-nodes-{token}"
    try:
        ray = connect()
    except EngineError as error:
        raise ClusterError(str(error)) from error
    try:
        marker.write_text(token, encoding="utf-8")
        wanted = Wanted(marker, token, evaluator, had(evaluator))
        executor = RayCluster(ray, wanted, jobs=jobs, cell_cpus=cell_cpus)
        try:
            yield executor
        finally:
            executor.stop(signal.SIGKILL)
    finally:
        marker.unlink(missing_ok=True)
        disconnect()
