"""A Ray cluster of several nodes on this machine, with real raylets, for tests."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def nodes_here(
    nodes: Sequence[Mapping[str, Any]] = ({"num_cpus": 1}, {"num_cpus": 1}),
) -> Iterator[Any]:
    """A `ray.cluster_utils.Cluster` at RAY_ADDRESS, ended with the context.

    Args:
        nodes: arguments of each node, the head first: num_cpus, node_name, env_vars.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    head, *others = nodes
    cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **head})
    before = os.environ.get("RAY_ADDRESS")
    try:
        for node in others:
            cluster.add_node(**node)
        os.environ["RAY_ADDRESS"] = cluster.address
        yield cluster
    finally:
        os.environ.pop("RAY_ADDRESS", None)
        if before is not None:
            os.environ["RAY_ADDRESS"] = before
        ray.shutdown()  # a program that is still connected, after an error, would be in the way
        cluster.shutdown()


def pids_of(title: str, above: int | None = None) -> list[int]:
    """Ids of the processes below this one (or below `above`) whose command line begins with `title`.

    Ray calls a process with an actor `ray::` and the actor's class; an engine's is the path of its binary.
    """
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            commands[int(folder.name)] = (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(folder.name)] = int(fields[1])

    def below(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == (above or os.getpid()):
                return True
        return False

    return [pid for pid, line in commands.items() if line.startswith(title.encode()) and below(pid)]


@contextlib.contextmanager
def killing(every_s: float, seed: int) -> Iterator[list[int]]:
    """A list of the workers that were killed, one every so many seconds (more or less) while the context lasts."""
    killed: list[int] = []
    end, rng = threading.Event(), random.Random(seed)

    def kill() -> None:
        while not end.wait(every_s * rng.uniform(0.5, 1.5)):
            if workers := pids_of("ray::Worker"):
                killed.append(rng.choice(workers))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        end.set()
        thread.join()
