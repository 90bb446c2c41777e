"""The choice of an executor, for every command that runs a grid."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from algorithms.core.checks import require

if TYPE_CHECKING:
    from algorithms.comparison.executors.executor import Executor


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
    out: Path,
    *,
    jobs: int | None,
    ray: bool,
    cell_cpus: int | None,
    evaluator: str | None = None,
    forks: bool = False,
) -> Iterator[Executor]:
    """The executor that is asked for.

    Args:
        out: the folder of the cells, which every node of a cluster must see.
        jobs: cells at a time; None: 1, or with `ray` as many as fit.
        ray: spread the cells over a Ray cluster.
        cell_cpus: CPUs and engines of each cell there; None: 1.
        evaluator: name of what scores their moves, which must be the same on every node; None where it comes with
            the project.
        forks: whether cells on this machine are forks of processes that have loaded everything.

    Raises:
        ValueError: a number below 1, or `cell_cpus` without `ray`.
        ClusterError: the cluster cannot run these cells.
    """
    require(
        jobs is None or jobs >= 1,
        f"jobs is {jobs}: set it to the number of cells at a time, at least 1",
    )
    if ray:
        from algorithms.comparison.executors.cluster import ray_cluster

        cpus = 1 if cell_cpus is None else cell_cpus
        require(cpus >= 1, f"--cell-cpus is {cpus}: set it to the CPUs of each cell, at least 1")
        with ray_cluster(out, jobs=jobs, cell_cpus=cpus, evaluator=evaluator) as executor:
            yield executor
    else:
        from algorithms.comparison.executors.local import local_processes

        require(
            cell_cpus is None,
            "--cell-cpus is for --ray: on one machine --jobs decides, and the cells share its cores",
        )
        with local_processes(jobs or 1, forks=forks) as executor:
            yield executor
