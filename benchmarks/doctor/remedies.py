"""Whether the commands that the doctor prints cure: each is run as printed, and its run diagnosed like any other.

    python -m benchmarks.doctor.remedies --part open --runs runs/open --json doctor_remedies_open.json
    python -m benchmarks.doctor.remedies --part causes --seeds 62 63 --runs runs/causes

RUNS holds the runs of `benchmarks.doctor.matrix`; those of `chess-lab causes run` are made. A command starts from the
settings of the faulty run, so where the fault is a setting it must undo it, and where the fault is code the command
runs without it (`in_code`). *Cured* is a run that is called learning and ends with less held-out regret than the faulty
one. `--tried` takes the command at the end of a diagnosis in place of that to confirm: the remedy that the matrix of
faults and remedies supports (docs/remedies.md).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from algorithms.collapse import CAUSES
from algorithms.collapse.experiment import session_with
from algorithms.collapse.trial import STARTS, Start, from_random_weights
from algorithms.doctor import Watch, diagnose_run
from algorithms.doctor.diagnosis import AS_USUAL, LEARNS
from algorithms.doctor.findings import Named
from algorithms.training.trainer import train
from benchmarks.doctor.matrix import PARTS, jobs, judged, read, regrets
from benchmarks.records.report import rate, save


class Printed(NamedTuple):
    """A harmful run for which a command is printed.

    Attributes:
        name: of its folder.
        kind: of fault.
        in_code: whether no setting makes the fault.
        verdict: of the run.
        cause: that is named first.
        command: printed for it.
    """

    name: str
    kind: str
    in_code: bool
    verdict: str
    cause: str
    command: str


def of_matrix(part: str, runs: Path, tried: bool) -> Iterator[Printed]:
    """Of the runs of a part of the matrix that did harm."""
    for job, row in zip(jobs(part), judged(part, runs), strict=True):
        if row["harmful"]:
            fault = PARTS[part][job.kind].fault
            yield from _printed(runs / job.name, job.kind, fault is not None, tried)


def of_causes(seeds: Sequence[int], runs: Path, tried: bool, start: Start) -> Iterator[Printed]:
    """Of the causes that can be switched on, full size, on both networks."""
    alone = [name for name, cause in CAUSES.items() if not cause.composite]
    for seed, network, name in itertools.product(seeds, ("resnet", "move_net"), alone):
        run = runs / f"{name}__{network}__{seed}"
        cause = CAUSES[name].on_network(network)
        if not (run / "metrics.jsonl").exists():
            config = cause.config(cured=False, seed=seed)
            if start == "cold":
                config = from_random_weights(config, network)
            config = dataclasses.replace(config, run_dir=run, preflight=False)
            train(config, make_session=session_with(cause.fault), watch=Watch())
        yield from _printed(run, name, cause.fault is not None, tried)


def _printed(run: Path, kind: str, in_code: bool, tried: bool) -> Iterator[Printed]:
    found = diagnose_run(run)
    harmful = [cause for cause in found.causes if cause.is_harmful]
    if not harmful or not isinstance(harmful[0].verdict, Named):
        return
    supported = "" if found.tried is None else found.tried.command
    if command := supported if tried else harmful[0].verdict.confirm:
        yield Printed(run.name, kind, in_code, found.verdict, harmful[0].name, command)


def pasted(command: str, run: Path, cured: Path) -> None:
    """Runs the command as a user would, into a folder of its own."""
    if (cured / "metrics.jsonl").exists():
        return
    program, *arguments = shlex.split(command.replace("RUN", shlex.quote(str(run))))
    assert program == "chess-lab", command
    subprocess.run(
        [sys.executable, "-m", "chess_lab", *arguments, "--run-dir", str(cured)],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )


def effects(commands: Iterable[Printed], runs: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each command, which is run into a folder below `folder`: verdict and regret before and after."""
    for each in commands:
        cured = folder / each.name
        pasted(each.command, runs / each.name, cured)
        after, (start, end) = diagnose_run(cured), regrets(read(cured))
        faulty = regrets(read(runs / each.name))[1]
        yield each._asdict() | {
            "start_cp": round(start, 1), "end_cp": round(faulty, 1),
            "cured_verdict": after.verdict, "cured_end_cp": round(end, 1),
            "cured": after.verdict in (AS_USUAL, LEARNS) and end < faulty,
        }  # fmt: skip


def rates(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often a command cures, with 95 % intervals."""
    return [
        rate(
            f"cured, {name}",
            [row for row in rows if row["in_code"] is in_code],
            lambda row: row["cured"],
        )
        for name, in_code in (("the fault is a setting", False), ("the fault is code", True))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=(*PARTS, "causes"), required=True)
    parser.add_argument("--seeds", type=int, nargs="*", default=(), help="of the causes")
    parser.add_argument("--start", choices=STARTS, default="warm", help="of the causes")
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--tried", action="store_true", help="the remedy that the matrix supports")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    found = (
        of_causes(options.seeds, options.runs, options.tried, options.start)
        if options.part == "causes"
        else of_matrix(options.part, options.runs, options.tried)
    )
    rows = []
    folder = options.runs / ("tried" if options.tried else "cured")
    for row in effects(found, options.runs, folder):
        print(row, flush=True)
        rows.append(row)
    print(*rates(rows), sep="\n")
    which = "tried" if options.tried else "confirm"
    save(
        options.json,
        "doctor_remedies",
        rows,
        part=options.part,
        which=which,
        start=options.start,
        rates=rates(rows),
    )


if __name__ == "__main__":
    main()
