"""Cells on the nodes of a Ray cluster.

A cell is an actor, which starts the cell's process on the node where Ray puts it, waits for its end, and passes
signals on to it. The process dies with the actor, and the actor with its node or with this program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from algorithms.comparison.executors.connection import connected, last_line
from algorithms.comparison.executors.executor import (
    WAIT_S,
    Cell,
    Ended,
    Event,
    Lost,
    Note,
    Started,
)
from algorithms.comparison.executors.nodes import ClusterError, Wanted, refusal, report
from algorithms.comparison.executors.remote import RemoteCell

NODES_S = 60.0
"""Longest wait for the report of a node, which may have to start a process of Ray and load the project."""
DEATH_S = 10.0
"""How long after its cell's death a node may still be counted as alive."""


@dataclasses.dataclass
class _Given:
    """A cell that was given to Ray.

    Attributes:
        actor: the handle of its actor.
        answer: the reference of what it was last asked: to begin, or to wait.
        node: id of its node; None until it has begun.
        again_at: when an actor that did not answer is asked again; None where it is being asked.
        dead_since: when Ray said that the actor is dead, while its node was alive.
        why: what Ray said.
    """

    cell: Cell
    actor: Any
    answer: Any
    node: str | None = None
    again_at: float | None = None
    dead_since: float | None = None
    why: str = ""


class RayCluster:
    """An `Executor`: the nodes of a cluster that Ray has been connected with."""

    def __init__(
        self, ray: ModuleType, wanted: Wanted, *, jobs: int | None, cell_cpus: int
    ) -> None:
        """Asks every node for its report.

        Raises:
            ClusterError: a node may not run cells, or none has enough CPUs.
        """
        self.at_a_time, self.engines = jobs, cell_cpus
        self._ray, self._wanted = ray, wanted
        self._here = report(wanted)
        self._given: dict[str, _Given] = {}
        self._events: list[Event] = []
        self._refused: set[str] = set()
        self._fitting = {
            node["NodeID"]: int(node["Resources"].get("CPU", 0)) // cell_cpus
            for node in ray.nodes()
            if node["Alive"]
        }
        self._fitting = {node: cells for node, cells in self._fitting.items() if cells}
        if not self._fitting:
            raise ClusterError(
                f"no node of the cluster has {cell_cpus} CPUs: lower --cell-cpus, or add nodes "
                "(`ray start --address HEAD:6379 --num-cpus N`)"
            )
        self._check()

    def _check(self) -> None:
        """Asks every node for its report, all at once; ClusterError names those that may not run cells."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ask = self._ray.remote(report)
        names = {node["NodeID"]: node["NodeManagerHostname"] for node in self._ray.nodes()}
        asked = {
            ask.options(
                num_cpus=0, max_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            ).remote(self._wanted): names[node]
            for node in self._fitting
        }  # fmt: skip
        answered, silent = self._ray.wait(list(asked), num_returns=len(asked), timeout=NODES_S)
        found = [f"node {asked[each]} has not answered for {NODES_S:.0f} s" for each in silent]
        for each in answered:
            try:
                why = refusal(self._ray.get(each), self._here, Path(self._wanted.marker).parent)
            except self._ray.exceptions.RayError as error:
                why = f"node {asked[each]} cannot run this project: {last_line(error)}"
            found += [why] if why else []
        if found:
            raise ClusterError("\n".join(dict.fromkeys(found)))

    def about(self, num_cells: int) -> str:
        """How many cells run at a time, and what each of them gets."""
        fitting = sum(self._fitting.values())
        jobs = min(num_cells, fitting if self.at_a_time is None else self.at_a_time)
        each = "1 CPU and 1 engine" if self.engines == 1 else f"{self.engines} CPUs and engines"
        nodes = f"{len(self._fitting)} node{'s' if len(self._fitting) > 1 else ''}"
        return f"up to {jobs} at a time on {nodes}: {each} each"

    def begin(self, cell: Cell) -> None:
        """Gives a cell to Ray, which starts it where there is room."""
        selector = {"ray.io/node-id": f"!in({','.join(sorted(self._refused))})"}
        actor = self._ray.remote(RemoteCell).options(
            num_cpus=self.engines, max_restarts=0, max_task_retries=0, max_concurrency=4,
            **({"label_selector": selector} if self._refused else {}),
        ).remote()  # fmt: skip
        answer = actor.begin.remote(
            cell, self._wanted, self._here, os.getcwd(), os.environ.get("PYTHONPATH")
        )
        self._given[cell.name] = _Given(cell, actor, answer)

    def events(self) -> list[Event]:
        """What has happened since the last call; waits for a moment where nothing has."""
        asked = {given.answer: given for given in self._given.values() if given.again_at is None}
        wait_s = 0 if self._events else WAIT_S
        if asked:
            for answer in self._ray.wait(list(asked), num_returns=1, timeout=wait_s)[0]:
                self._answered(asked[answer])
        else:
            time.sleep(wait_s)
        self._look_after_silent()
        found, self._events = self._events, []
        return found

    def _answered(self, given: _Given) -> None:
        """Takes what the actor of a cell has answered."""
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(given.answer)
        except errors.ActorUnavailableError as error:
            given.again_at, given.why = time.monotonic() + 1, last_line(error)
        except errors.RayActorError as error:
            given.again_at = given.dead_since = time.monotonic()
            given.why = last_line(error)
        except errors.RayError as error:  # such as a log that cannot be written
            self._end(given, 1, last_line(error))
        else:
            if isinstance(answer, int):
                self._end(given, answer)
            else:
                self._began(given, *answer)

    def _began(self, given: _Given, node: str, host: str, why: str | None) -> None:
        if why is None:
            given.node = node
            given.answer = given.actor.wait.remote()
            self._events.append(Started(given.cell.name, host))
            return
        if node not in self._refused:  # one that joined later: the others go on
            self._refused.add(node)
            self._events.append(Note(why))
        if self._refused >= {each["NodeID"] for each in self._ray.nodes() if each["Alive"]}:
            raise ClusterError(f"no node is left: {why}")  # such as where the code was edited
        self._ray.kill(given.actor)
        self.begin(given.cell)

    def _look_after_silent(self) -> None:
        """Decides what became of the cells whose actors do not answer."""
        silent = [given for given in self._given.values() if given.again_at is not None]
        if not silent:
            return
        alive = {node["NodeID"]: node["Alive"] for node in self._ray.nodes()}
        names = {node["NodeID"]: node["NodeManagerHostname"] for node in self._ray.nodes()}
        now = time.monotonic()
        for given in silent:
            if given.node is not None and not alive.get(given.node, False):
                self._lose(given, f"node {names.get(given.node, given.node)} is gone")
            elif given.dead_since is None:
                if now >= (given.again_at or now):
                    given.again_at, given.answer = None, given.actor.wait.remote()
            elif given.node is None:
                self._lose(given, f"it could not begin ({given.why})")
            elif now > given.dead_since + DEATH_S:
                self._end(given, -signal.SIGKILL, given.why)

    def _end(self, given: _Given, exit_code: int, why: str = "") -> None:
        del self._given[given.cell.name]
        self._ray.kill(given.actor)
        if why:
            with given.cell.log.open("a", encoding="utf-8") as log:
                log.write(f"{why}\n")
        self._events.append(Ended(given.cell.name, exit_code))

    def _lose(self, given: _Given, why: str) -> None:
        del self._given[given.cell.name]
        self._ray.kill(given.actor)
        self._events.append(Lost(given.cell.name, why))

    def stop(self, number: signal.Signals) -> None:
        """Sends the signal to every cell that runs; those that do not answer or have not begun are lost."""
        for given in list(self._given.values()):
            if given.node is None or given.again_at is not None:
                self._lose(given, "it was asked to end")
            elif number == signal.SIGKILL:
                self._end(given, -number)
            else:
                given.actor.send_signal.remote(int(number))


@contextlib.contextmanager
def ray_cluster(
    out: Path, *, jobs: int | None, cell_cpus: int, evaluator: str | None
) -> Iterator[RayCluster]:
    """The cluster of RAY_ADDRESS, or the one that runs on this machine, checked; its actors end with the context.

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
    with connected() as ray:
        try:
            marker.write_text(token, encoding="utf-8")
            wanted = Wanted(str(marker), token, evaluator)
            executor = RayCluster(ray, wanted, jobs=jobs, cell_cpus=cell_cpus)
            try:
                yield executor
            finally:
                executor.stop(signal.SIGKILL)
        finally:
            marker.unlink(missing_ok=True)
