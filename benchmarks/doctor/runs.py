"""Runs the cells of the doctor's matrix; what is finished is not run again.

    python -m benchmarks.doctor.runs --out runs/doctor --seeds-from HEAD

The seeds are the first different groups of four hexadecimal digits in the commit's full SHA-1. A healthy run has one
seed: the next of these in turn. `--seeds` gives others, for choosing rules and thresholds on. Each run leaves its
metrics.jsonl in OUT/NAME/SEED; a run that ends with an error leaves error.txt and is named.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from algorithms.config.run import TrainConfig
from benchmarks.doctor.cells import Cell, cells

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
RUNS_OF_A_PROCESS = 40


class Job(NamedTuple):
    """A cell on a seed."""

    name: str
    seed: int

    def folder(self, out: Path) -> Path:
        """Where its record lies."""
        return out / self.name / str(self.seed)


def planned(chosen: Sequence[Cell], seeds: Sequence[int]) -> list[Job]:
    """The runs, seed by seed, so that an early end leaves whole seeds."""
    jobs = [Job(cell.name, seed) for seed in seeds for cell in chosen if cell.group != "healthy"]
    healthy = [cell for cell in chosen if cell.group == "healthy"]
    return jobs + [
        Job(cell.name, seeds[position % len(seeds)]) for position, cell in enumerate(healthy)
    ]


def run(job: Job, out: Path) -> float:
    """Seconds that the run took; its folder holds metrics.jsonl, or error.txt."""
    import torch

    from algorithms.training.session import Session
    from algorithms.training.trainer import train

    cell = next(cell for cell in cells() if cell.name == job.name)
    folder = job.folder(out)
    if folder.exists():  # another process was faster
        return 0.0
    scratch = folder.with_name(f"{job.seed}.running.{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    config = dataclasses.replace(
        cell.settings, seed=job.seed, run_dir=scratch / "run", preflight=False, cause=None
    )

    def make_session(settings: TrainConfig, *, fresh: bool = True) -> Session:
        session = Session(settings, fresh=fresh)
        # Dropout in the sampler draws from torch's global stream, which no setting seeds.
        torch.manual_seed(settings.seed)
        for fault in cell.faults:
            fault(session)
        return session

    began = time.monotonic()
    with open(scratch / "log.txt", "w") as log, contextlib.redirect_stdout(log):
        try:
            if cell.split is not None:
                half = config.total_moves * cell.split // 40
                train(dataclasses.replace(config, total_moves=half), make_session=make_session)
            train(config, make_session=make_session, resume=cell.split is not None)
        except (ValueError, RuntimeError, OSError):
            (scratch / "error.txt").write_text(traceback.format_exc())
    record = scratch / "run" / "metrics.jsonl"
    if record.exists():
        record.rename(scratch / "metrics.jsonl")
        (scratch / "run" / "config.json").rename(scratch / "config.json")
    shutil.rmtree(scratch / "run", ignore_errors=True)
    if folder.exists():  # another process was faster after all
        shutil.rmtree(scratch)
    else:
        scratch.rename(folder)
    return time.monotonic() - began


def _run(todo: tuple[Job, Path]) -> tuple[Job, float]:
    """(the job, seconds that it took)."""
    job, out = todo
    return job, run(job, out)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--groups", nargs="+", default=None)
    parser.add_argument("--names", nargs="+", default=None)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seeds", type=int, nargs="+")
    which.add_argument("--seeds-from", metavar="COMMIT")
    options = parser.parse_args()
    seeds = options.seeds
    if seeds is None:
        from benchmarks.learning.causes import full_hash, seeds_of

        seeds = seeds_of(full_hash(options.seeds_from))
    chosen = [
        cell
        for cell in cells()
        if (options.groups is None or cell.group in options.groups)
        and (options.names is None or cell.name in options.names)
    ]
    jobs = [j for j in planned(chosen, seeds) if not j.folder(options.out).exists()]
    print(f"{len(jobs)} runs to do", flush=True)
    for name in THREADS:
        os.environ[name] = "1"
    failed = 0
    context = get_context("spawn")
    with context.Pool(options.jobs, maxtasksperchild=RUNS_OF_A_PROCESS) as pool:
        todo = [(job, options.out) for job in jobs]
        for count, (job, spent) in enumerate(pool.imap_unordered(_run, todo), 1):
            broken = (job.folder(options.out) / "error.txt").exists()
            failed += broken
            print(f"{count}/{len(jobs)} {job.name} {job.seed} {spent:.0f} s"
                  f"{' FAILED' if broken else ''}", flush=True)  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
