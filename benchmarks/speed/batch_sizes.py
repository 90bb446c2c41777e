"""Positions a second of the Stockfish pool in small batches against one batch of 4,000, interleaved in one run.

    python -m benchmarks.speed.batch_sizes [--sizes 64 512] [--rounds 9] [--json PATH]

At the end of a batch an engine may be idle until the other one is done. Each round scores about 4,000 positions in
batches of each size, in another order each time; a row has the median of the rates and of the ratios within a round.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from pathlib import Path

from benchmarks.records.report import print_table, save
from benchmarks.speed.stockfish_pool import random_positions
from chess_env.evaluators import StockfishEvaluator

WHOLE = 4_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    positions, order = random_positions(WHOLE, seed=3), random.Random(0)
    sizes = [*options.sizes, WHOLE]
    rates: dict[int, list[float]] = {size: [] for size in sizes}
    with StockfishEvaluator(depth=4, num_engines=options.engines) as pool:
        pool.evaluate(positions[:256])
        for _ in range(options.rounds):
            for size in order.sample(sizes, len(sizes)):
                count = WHOLE // size * size
                began = time.perf_counter()
                for start in range(0, count, size):
                    pool.evaluate(positions[start : start + size])
                rates[size].append(count / (time.perf_counter() - began))
        identity = pool.id
    rows = []
    for size, found in rates.items():
        ratios = [rate / whole for rate, whole in zip(found, rates[WHOLE], strict=True)]
        rows.append(
            {
                "batch": size,
                "positions_per_s": round(statistics.median(found)),
                "of_one_batch": round(statistics.median(ratios), 2),
                "lowest": round(min(ratios), 2),
                "highest": round(max(ratios), 2),
            }
        )
    print_table(rows)
    save(options.json, "batch_sizes", rows, evaluator=identity, rounds=options.rounds)


if __name__ == "__main__":
    main()
