"""Kills a training run at every change that it makes to a file, and at random instants, and lets it go on.

    python -m benchmarks.reliability.kills [--instants 100] [--seed 0] [--json PATH]

Three series: the run kills itself before each change of a file of its folder and half-way through each write; a run
that was killed in its second checkpoint goes on, and the process that goes on kills itself in the same way; and the run
is killed from outside at random instants between its first and its last. After each kill `chess-lab train --resume`
goes on, or the same command where there is nothing to resume. Each must come to what the undisturbed run came to: the
same rows, weights, optimizer and generators to the bit, and no other files.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from benchmarks.records.report import print_table, save
from benchmarks.reliability.boundaries import (
    Kill,
    begun,
    changes,
    clear,
    command,
    ended,
    gone_on,
    killed,
    kills,
    outcome,
    straight,
)


def series(
    name: str, attempts: Iterable[tuple[str, Callable[[Path], bool]]], whole: Path
) -> dict[str, Any]:
    """Counts of one series of kills.

    Args:
        name: of the series.
        attempts: (what is done, from a run folder that is not there yet to whether a run was killed in it).
        whole: the folder of the undisturbed run.
    """
    expected, run_dir = outcome(whole), whole.with_name("run")
    ways, wrong, number, hit = Counter[str](), [], 0, 0
    for what, attempt in attempts:
        number += 1
        hit += attempt(run_dir)
        try:
            ways[gone_on(command(run_dir), run_dir)] += 1
            found = outcome(run_dir)
            if found != expected:
                parts = [part for part in expected if found[part] != expected[part]]
                wrong.append(f"{what}: other {', '.join(parts)}")
        except RuntimeError as error:
            wrong.append(f"{what}: {error}")
        clear(run_dir)
    return {
        "series": name,
        "attempts": number,
        "killed": hit,
        "by --resume": ways["--resume"],
        "by the same command": ways["the same command"],
        "not as undisturbed": len(wrong),
        "failures": wrong,
    }


def at_changes(scratch: Path) -> Iterable[tuple[str, Callable[[Path], bool]]]:
    """A kill at each change of the run."""
    counted = scratch / "counted"
    found = changes(command(counted), counted)
    for kill in kills(found):

        def attempt(run_dir: Path, kill: Kill = kill) -> bool:
            killed(command(run_dir), run_dir, kill)
            return True

        yield f"{kill} {found[kill.at - 1]}", attempt


def at_changes_of_going_on(scratch: Path) -> Iterable[tuple[str, Callable[[Path], bool]]]:
    """A kill at each change of a run that goes on after a kill in its second checkpoint."""
    begin, counted = scratch / "begin", scratch / "going_on"
    first = changes(command(begin), begin)
    clear(begin)
    second = [n for n, what in enumerate(first, start=1) if what == "mkdir checkpoints"][1]
    killed(command(begin), begin, Kill(second + 5))
    shutil.copytree(begin, counted, symlinks=True)
    found = changes(["train", "--resume", counted], counted)
    for kill in kills(found):

        def attempt(run_dir: Path, kill: Kill = kill) -> bool:
            shutil.copytree(begin, run_dir, symlinks=True)
            killed(["train", "--resume", run_dir], run_dir, kill)
            return True

        yield f"{kill} {found[kill.at - 1]}", attempt


def at_instants(
    scratch: Path, number: int, seed: int
) -> Iterable[tuple[str, Callable[[Path], bool]]]:
    """Kills from outside at random instants of the whole life of a run."""
    rng, timed, times = random.Random(seed), scratch / "timed", []
    for _ in range(3):
        start = time.monotonic()
        ended(begun(command(timed), timed.with_suffix(".log")))
        times.append(time.monotonic() - start)
        clear(timed)
    for _ in range(number):
        instant_s = rng.uniform(0.0, sorted(times)[1])

        def attempt(run_dir: Path, instant_s: float = instant_s) -> bool:
            process = begun(command(run_dir), run_dir.with_suffix(".log"))
            time.sleep(instant_s)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            return ended(process) == -signal.SIGKILL

        yield f"after {instant_s:.3f} s", attempt


def main() -> None:
    """Prints the counts and writes them as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the instants")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        whole = scratch / "whole"
        straight(command(whole))
        rows = [
            series("at every change", at_changes(scratch), whole),
            series("at every change of going on", at_changes_of_going_on(scratch), whole),
            series(
                "at random instants", at_instants(scratch, options.instants, options.seed), whole
            ),
        ]
    failures = {row["series"]: row.pop("failures") for row in rows}
    print_table(rows)
    for kind, found in failures.items():
        for failure in found:
            print(f"{kind}: {failure}")
    save(
        options.json,
        "kills",
        rows,
        seed=options.seed,
        command=command(Path("RUN")),
        failures=failures,
    )


if __name__ == "__main__":
    main()
