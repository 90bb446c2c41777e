"""Processes of `chess-lab` that this one starts: they end with it, and find this package wherever it was started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Pools of libraries, which would have a thread for each core of the machine in every run. The network's threads are
# a setting of the run, because their number decides how sums are rounded.
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

# A grid that is killed outright cannot tell its children, so the kernel does (Linux only; elsewhere
# they train on to their end, and the lock of their run folder keeps a second process out). It is set
# in a process between, because code run between fork and exec of a threaded process may hang.
_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform.startswith("linux"):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # 1: PR_SET_PDEATHSIG
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)  # the grid was gone before
os.execv(sys.argv[2], sys.argv[2:])
"""


def launcher() -> list[str]:
    """First words of a command whose process shall end with this one."""
    return [sys.executable, "-I", "-S", "-c", _DIES_WITH_PARENT, str(os.getpid())]


def environment_of_runs() -> dict[str, str]:
    """Environment variables of the runs, which find this package wherever the grid was started.

    Each pool of a library has one thread, unless its variable is set.
    """
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**dict.fromkeys(_POOLS, "1"), **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
