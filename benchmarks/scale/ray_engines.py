"""Stockfish on a Ray cluster of two nodes against the local pool of engines, on the same cores.

Pairs, one after the other: both score the same positions with the same number of engines, and who is first
changes from pair to pair. Every score of the two must be equal. With --kill-every-s, workers of the cluster are
ended by SIGKILL while they score.

    python -m benchmarks.scale.ray_engines [--pairs 9] [--positions 10000] [--kill-every-s 5] [--json PATH]

The last row of the table has the medians, and the median of the ratios within a pair.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.records.report import print_table, save
from benchmarks.scale.nodes_here import nodes_here, pids_of
from benchmarks.speed.stockfish_pool import random_positions
from chess_env.evaluators import Evaluator, make_evaluator


@contextlib.contextmanager
def killing(every_s: float | None, seed: int) -> Iterator[list[int]]:
    """A list of the workers that were killed, one every so many seconds (more or less) while the context lasts."""
    killed: list[int] = []
    end, rng = threading.Event(), random.Random(seed)

    def kill() -> None:
        assert every_s is not None
        while not end.wait(every_s * rng.uniform(0.5, 1.5)):
            if workers := pids_of("ray::Worker"):
                killed.append(rng.choice(workers))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    if every_s is not None:
        thread.start()
    try:
        yield killed
    finally:
        end.set()
        if every_s is not None:
            thread.join()


def timed(evaluator: Evaluator, positions: NDArray[np.uint64]) -> tuple[float, NDArray[np.int32]]:
    """(positions a second, their scores)."""
    begun = time.perf_counter()
    scores = evaluator.evaluate(positions)
    return len(positions) / (time.perf_counter() - begun), scores


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each pair, and one with the medians."""
    engines, rows = options.engines, []
    shares = [engines - engines // 2, engines // 2] if engines > 1 else [1]
    with (
        nodes_here([{"num_cpus": share} for share in shares]),
        contextlib.closing(make_evaluator(f"ray:{options.evaluator}", engines)) as cluster,
        contextlib.closing(make_evaluator(options.evaluator, engines)) as local,
    ):
        for evaluator in (cluster, local):
            evaluator.evaluate(random_positions(64 * engines, seed=0))
        for pair in range(options.pairs):
            positions = random_positions(options.positions, seed=1 + pair)
            first = timed(local, positions) if pair % 2 else None
            with killing(options.kill_every_s, pair) as killed:
                spread = timed(cluster, positions)
            here = first or timed(local, positions)
            if not np.array_equal(spread[1], here[1]):
                raise AssertionError(f"pair {pair}: the scores differ")
            rows.append(_row(str(pair), spread[0], here[0], len(killed)))
            print(rows[-1], flush=True)
    middle = {
        name: statistics.median(row[name] for row in rows) for name in ("cluster/s", "local/s")
    }
    ratio = statistics.median(row["cluster / local"] for row in rows)
    total = _row("median", *middle.values(), sum(row["killed"] for row in rows))
    return [*rows, total | {"cluster / local": ratio}]


def _row(pair: str, spread: float, here: float, killed: int) -> dict[str, Any]:
    return {
        "pair": pair,
        "cluster/s": round(spread),
        "local/s": round(here),
        "cluster / local": round(spread / here, 3),
        "killed": killed,
    }


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evaluator", default="stockfish:depth=4", help="on both sides")
    parser.add_argument(
        "--engines", type=int, default=2, help="on either side, and CPUs of the cluster"
    )
    parser.add_argument("--positions", type=int, default=10_000, help="of a pair")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument(
        "--kill-every-s", type=float, help="kill a worker about so often; default: never"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    rows = measure(options)
    print_table(rows)
    settings = {name: value for name, value in vars(options).items() if name != "json"}
    save(options.json, "scale.ray_engines", rows, **settings)


if __name__ == "__main__":
    main()
