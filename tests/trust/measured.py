"""A command in a process of its own, with the most memory that it held and the time that it took.

The peak is `ru_maxrss` of the one child of a small process: Linux hands the peak of a large parent on to what it
starts, so a child of the tests themselves would show their memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.commands.lab import ENV

ROOT = Path(__file__).parents[2]
_BETWEEN = """
import json, os, resource, subprocess, sys, time
began = time.monotonic()
code = subprocess.call(sys.argv[2:])
took = time.monotonic() - began
peak = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(json.dumps([code, took, peak.ru_utime + peak.ru_stime, peak.ru_maxrss / 1024]))
"""


class Measured(NamedTuple):
    """How a process ended, what it wrote, and what it took.

    Attributes:
        code: its exit code.
        out: its standard output.
        err: its standard error.
        clock_s: seconds by the clock.
        cpu_s: seconds of processor time, its children's included.
        peak_mb: the most memory that it held at once, MiB.
    """

    code: int
    out: str
    err: str
    clock_s: float
    cpu_s: float
    peak_mb: float


def measured(*command: Any, cwd: Path | None = None, timeout_s: float = 240.0) -> Measured:
    """What came of a command line; it reads no input.

    Raises:
        subprocess.TimeoutExpired: it took longer than `timeout_s`; it has been killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        line = [sys.executable, "-I", "-S", "-c", _BETWEEN, str(told), *map(str, command)]
        with subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**ENV, "PYTHONPATH": str(ROOT)}, cwd=cwd, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                raise
        return Measured(*_in_order(json.loads(told.read_text()), out, err))


def _in_order(told: Sequence[Any], out: str, err: str) -> tuple[Any, ...]:
    code, clock_s, cpu_s, peak_mb = told
    return code, out, err, clock_s, cpu_s, peak_mb


def lab(*arguments: Any, **options: Any) -> Measured:
    """`measured` of a command of `chess-lab`."""
    return measured(sys.executable, "-m", "algorithms.cli", *arguments, **options)
