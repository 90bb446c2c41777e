"""What the scripts of all peers share: one core, random numbers, how a move is drawn, and the rounds.

Only NumPy is needed: a script runs in the environment of its peer.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable

import numpy as np

CHUNK_S = 0.05
"""The clock is read about so often."""

rng = np.random.default_rng(0)


def one_core() -> None:
    """None; keeps this process and its children on one core, where the system can. Call it before heavy imports."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def one_of(mask) -> int:
    """A uniform random action of one mask [A], every entry of which is read."""
    legal = np.flatnonzero(np.asarray(mask).view(np.bool_))
    return int(legal[int(rng.random() * len(legal))])


def one_of_each(masks):
    """int64 [N]: a uniform random action of each mask [N, A], every entry of which is read."""
    masks = np.ascontiguousarray(masks)
    legal = np.flatnonzero(masks.view(np.bool_))
    row_starts = np.arange(len(masks)) * masks.shape[1]
    first = np.searchsorted(legal, row_starts)
    counts = np.append(first[1:], len(legal)) - first
    return legal[first + (rng.random(len(masks)) * counts).astype(np.int64)] - row_starts


def serve(
    step: Callable[[], int], package: str, cpu_s: Callable[[], float] = time.process_time
) -> None:
    """None; plays for as many CPU-seconds as each line of standard input says.

    Args:
        step: plays at least a ply, and returns how many.
        package: whose version is told.
        cpu_s: CPU-seconds used so far.
    """
    began = cpu_s()
    played = 0
    while played == 0 or cpu_s() - began < 1.0:  # compiles, and warms the caches
        played += step()
    per_chunk = max(1, int(CHUNK_S / ((cpu_s() - began) / played) / step()))
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        budget_s, began, played = float(line), cpu_s(), 0
        while (spent_s := cpu_s() - began) < budget_s:
            for _ in range(per_chunk):
                played += step()
        print(json.dumps({"plies": played, "cpu_s": spent_s}), flush=True)
