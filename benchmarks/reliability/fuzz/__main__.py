"""Feeds damaged inputs to everything that reads what people send each other, and counts what goes wrong.

    python -m benchmarks.reliability.fuzz [--inputs 100000] [--target fen ...] [--engine atheris] [--json PATH]
    python -m benchmarks.reliability.fuzz --replay runs/fuzz/fen-0123456789ab

An input must be accepted, and then hold what it should, or be refused by the error that is documented, whose message is
short and repeats little of the input. Anything else is a failure: another error, an answer that is wrong, no end, or
memory without bounds. The first input of each kind of failure is kept. Each target runs in a process of its own.

The inputs are made from recipes (`recipes.py`). atheris, which looks for recipes that reach new lines of code, invents
them where it is installed (`pip install -e ".[fuzz]"`), and otherwise hypothesis.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.records.report import print_table, save
from benchmarks.reliability.fuzz.engines import by_atheris, by_hypothesis, installed
from benchmarks.reliability.fuzz.judge import Judge
from benchmarks.reliability.fuzz.targets import TARGETS, made

_PATIENCE_S = 20.0  # of processor time: a busy machine makes no failures
_MOST_MEMORY = 6 * 2**30  # bytes of addresses; torch and numba take less than two at rest


def fed(options: argparse.Namespace, name: str, engine: str) -> None:
    """Feeds one target in this process, writes its row to `options.row` and ends the process."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    memory = Path("/dev/shm")
    holder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
    with holder as scratch:

        def make() -> Judge:
            target = made(name, Path(scratch))
            return Judge(name, target, options.failures, patience_s=_PATIENCE_S)

        def done(judge: Judge) -> None:
            row = judge.row(engine, time.process_time() - began)
            options.row.write_text(json.dumps({"row": row, "failures": judge.failures}))

        def last(judge: Judge) -> None:
            done(judge)
            holder.cleanup()
            os._exit(0)

        began, until = time.process_time(), time.monotonic() + 60 * options.minutes
        if engine == "atheris":
            by_atheris(make, options.inputs, options.seed, until, last)
        judge = make()
        by_hypothesis(judge, options.inputs, options.seed, until)
        done(judge)


def row_of(
    options: argparse.Namespace, name: str, engine: str
) -> tuple[dict[str, Any], dict[str, int]]:
    """(row, failures) of one target, fed in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        row = Path(folder) / "row"
        command = [sys.executable, "-m", "benchmarks.reliability.fuzz"]
        given = {key: getattr(options, key) for key in ("inputs", "seed", "minutes", "failures")}
        for key, value in {**given, "target": name, "engine": engine, "row": row}.items():
            command += [f"--{key}", str(value)]
        code = subprocess.run(command).returncode
        if not row.exists():
            counts = {"inputs": 0, "accepted": 0, "refused": 0, "failures": 1}
            return {"target": name, "engine": engine, **counts}, {f"it ended with {code}": 1}
        found = json.loads(row.read_text())
        return found["row"], found["failures"]


def replayed(path: Path) -> int:
    """Exit code of feeding one kept input, with the whole traceback of a failure."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        said = made(path.name.rpartition("-")[0], Path(scratch)).check(path.read_bytes())
    print("accepted" if said is None else f"refused: {said}")
    return 0


def main() -> int:
    """Exit code: 0 where nothing went wrong; prints the counts and writes them as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="of each target")
    parser.add_argument("--target", choices=TARGETS, nargs="+", default=list(TARGETS))
    parser.add_argument("--engine", choices=("atheris", "hypothesis"), default=installed())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="by the clock, at most, for each target"
    )
    parser.add_argument(
        "--failures", type=Path, default=Path("runs/fuzz"), help="where inputs are kept"
    )
    parser.add_argument("--replay", type=Path, help="an input that was kept, named TARGET-...")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--row", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        return replayed(options.replay)
    if options.row:
        fed(options, options.target[0], options.engine)
        return 0
    found = [row_of(options, name, options.engine) for name in options.target]
    rows = [row for row, _ in found]
    print_table(rows)
    failures = {row["target"]: failed for row, failed in found if failed}
    for name, failed in failures.items():
        for kind, number in failed.items():
            print(f"{name}: {kind}: {number:,} inputs")
    save(
        options.json,
        "fuzz",
        rows,
        inputs=options.inputs,
        seed=options.seed,
        engine=options.engine,
        failures=failures,
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
