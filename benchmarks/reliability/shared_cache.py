"""Lets processes fill one cache of scores at once, and counts what is lost, wrong or refused.

    python -m benchmarks.reliability.shared_cache [--processes 2] [--keys 100000] [--seed 0] [--json PATH]

Each process asks `CachedEvaluator` for its positions twice, in batches of 256 and in orders of its own, and opens the
file anew after every 20 batches, as one run after another does. Half of its positions are those of all processes. The
cache keeps one score in memory, so all others are read from the file. A score that a process has been given and that
is not found later, by itself or by a new process in the end, is lost. Behind the cache is the built-in evaluator.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.records.report import print_table, save
from benchmarks.speed.stockfish_pool import random_positions
from chess_env.evaluators import CachedEvaluator, make_evaluator

BATCH = 256
_BATCHES_OPEN = 20
Positions = NDArray[np.uint64]
Counts = dict[str, int]


def filled(path: Path, positions: Positions, expected: NDArray[np.int32], seed: int) -> Counts:
    """What one process sees that asks for positions twice: {"lost", "wrong", "locked", "warnings"}.

    Args:
        path: of the cache's file.
        positions: uint64 `[N, 8]`, distinct.
        expected: int32 `[N]`, their scores.
        seed: of the two orders.
    """
    rng, lost, wrong = np.random.default_rng(seed), 0, 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for again in (False, True):
            order = rng.permutation(len(positions))
            for start in range(0, len(order), BATCH * _BATCHES_OPEN):
                part = order[start : start + BATCH * _BATCHES_OPEN]
                seen = asked(path, positions[part], expected[part])
                wrong += seen["wrong"]
                lost += seen["not_kept"] if again else 0
    texts = [str(each.message) for each in said]
    return {
        "lost": lost,
        "wrong": wrong,
        "locked": sum("locked" in text for text in texts),
        "warnings": len(texts),
    }


def asked(path: Path, positions: Positions, expected: NDArray[np.int32]) -> Counts:
    """{"not_kept": positions that the file of a cache does not hold, "wrong": those with another score}."""
    wrong = 0
    with CachedEvaluator(make_evaluator("builtin", 1), memory_entries=1, path=path) as cache:
        for start in range(0, len(positions), BATCH):
            part = slice(start, start + BATCH)
            wrong += int((cache.evaluate(positions[part]) != expected[part]).sum())
        return {"not_kept": int(cache.inner.counters()["queries"]), "wrong": wrong}


def shared(folder: Path, processes: int, keys: int, seed: int) -> dict[str, Any]:
    """A row of the record: what became of so many keys a process in one file.

    Args:
        folder: for the file.
        processes: at once, at least 2.
        keys: of each, even.
        seed: of positions and orders.
    """
    own = keys // 2
    positions = random_positions(own * (processes + 1), seed)
    with make_evaluator("builtin", 1) as evaluator:
        expected = evaluator.evaluate(positions)
    path, context = folder / "scores.sqlite", multiprocessing.get_context("spawn")
    # The first half is of all of them, and each has another of the halves that follow.
    shares = [np.r_[:own, own * number : own * (number + 1)] for number in range(1, processes + 1)]
    work = [
        (path, positions[share], expected[share], seed + number)
        for number, share in enumerate(shares)
    ]
    begun = time.monotonic()
    with context.Pool(processes) as pool:
        seen = pool.starmap(filled, work, chunksize=1)
    seconds = time.monotonic() - begun
    left = asked(path, positions, expected)
    return {
        "processes": processes,
        "keys": keys,
        "distinct_keys": len(positions),
        "seconds": round(seconds, 1),
        "lost": left["not_kept"] + sum(each["lost"] for each in seen),
        "wrong": left["wrong"] + sum(each["wrong"] for each in seen),
        "locked": sum(each["locked"] for each in seen),
        "warnings": sum(each["warnings"] for each in seen),
    }


def main() -> None:
    """Prints the counts and writes them as JSON if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keys", type=int, default=100_000, help="of each process, even")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [shared(Path(folder), options.processes, options.keys, options.seed)]
    print_table(rows)
    save(options.json, "shared_cache", rows, batch=BATCH, seed=options.seed)


if __name__ == "__main__":
    main()
