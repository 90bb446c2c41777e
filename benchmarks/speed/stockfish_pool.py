"""Measures the Stockfish pool in pure mode against python-chess's engine client, interleaved in one run.

    python -m benchmarks.speed.stockfish_pool [--positions 500] [--rounds 15] [--engines 2] [--depth 4] [--json PATH]

Figures (medians over rounds; positions from random play, given packed to the pool and as ready boards to the rival):
engines busy: run + runnable-wait time of the engines' threads over wall time (/proc/PID/task/*/schedstat, Linux;
above 100 % where both threads of an engine wait for a CPU at once); python us/query: CPU time of this process per
position; queries/s by the wall clock; speed-up: the median ratio of queries/s of neighbouring runs.

With `--batches 64 512` it measures the pool alone, in batches of these sizes against one of 4,000: at the end of a
batch an engine may be idle until the other one is done. Each round scores about 4,000 positions in batches of each
size, in another order each time; a row has the median of the rates, and of the ratios within a round.
"""

from __future__ import annotations

import argparse
import functools
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from benchmarks.records.report import print_table, save
from benchmarks.speed.rivals.python_chess_engine import PythonChessClient
from chess_env.evaluators import StockfishEvaluator
from chess_env.rules import fen, rules


def random_positions(count: int, seed: int, max_plies: int = 40) -> NDArray[np.uint64]:
    """uint64 [N, 8]: distinct ongoing positions after 2 to `max_plies` random plies."""
    rng = np.random.default_rng(seed)
    found: dict[int, NDArray[np.uint64]] = {}
    while len(found) < count:
        positions = np.repeat(fen.pack_fens([chess.STARTING_FEN]), count, axis=0)
        for ply in range(1, max_plies + 1):
            ids, num_legal = rules.legal_actions_batch(positions)
            pick = (rng.random(len(positions)) * num_legal).astype(int)
            positions = rules.apply_batch(positions, ids[np.arange(len(positions)), pick])
            positions = positions[rules.status_batch(positions) == rules.ONGOING]
            if ply >= 2:
                taken = rng.choice(
                    len(positions), size=min(len(positions), count // max_plies + 1), replace=False
                )
                found |= dict(
                    zip(rules.hash_batch(positions[taken]).tolist(), positions[taken], strict=True)
                )
    return np.array(list(found.values())[:count])


def engine_busy_s(pids: Sequence[int]) -> float:
    """Seconds that the threads of these processes ran or waited for a CPU so far."""
    nanoseconds = 0
    for pid in pids:
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            run, wait, _ = file.read_text().split()
            nanoseconds += int(run) + int(wait)
    return nanoseconds / 1e9


def measure(
    evaluate: Callable[[], Any], pids: Sequence[int], count: int
) -> tuple[dict[str, float], Any]:
    """(figures of one call, its result)."""
    busy, cpu, wall = engine_busy_s(pids), time.process_time(), time.perf_counter()
    scores = evaluate()
    wall = time.perf_counter() - wall
    return {
        "engines_busy": (engine_busy_s(pids) - busy) / (wall * len(pids)),
        "python_us_per_query": (time.process_time() - cpu) / count * 1e6,
        "queries_per_s": count / wall,
    }, scores


def compare_batches(args: argparse.Namespace) -> None:
    """Prints the table of batch sizes and writes it as JSON if asked."""
    whole, order = 4_000, random.Random(0)
    positions, sizes = random_positions(whole, seed=3), [*args.batches, whole]
    rates: dict[int, list[float]] = {size: [] for size in sizes}
    with StockfishEvaluator(depth=args.depth, num_engines=args.engines) as pool:
        pool.evaluate(positions[:256])
        for _ in range(args.rounds):
            for size in order.sample(sizes, len(sizes)):
                count = whole // size * size
                began = time.perf_counter()
                for start in range(0, count, size):
                    pool.evaluate(positions[start : start + size])
                rates[size].append(count / (time.perf_counter() - began))
        identity = pool.id
    rows = []
    for size, found in rates.items():
        ratios = [rate / best for rate, best in zip(found, rates[whole], strict=True)]
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
    save(
        args.json, "batch_sizes", rows, evaluator=identity, engines=args.engines, rounds=args.rounds
    )


def main() -> None:
    """Prints the table and writes it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--positions", type=int, default=500, help="positions per round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batches", type=int, nargs="+", help="sizes to compare with 4,000")
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    if args.batches:
        compare_batches(args)
        return

    positions = random_positions(args.positions * args.rounds, seed=1)
    boards = [chess.Board(text.decode()) for text in fen.engine_fens(positions)]
    rounds: dict[str, list[dict[str, float]]] = {"pool": [], "python-chess": []}
    different = 0
    with StockfishEvaluator(num_engines=args.engines, depth=args.depth) as pool:
        rival = PythonChessClient(pool.path, args.engines, args.depth)
        pool.evaluate(positions[:64])
        rival.evaluate(boards[:64])
        for i in range(args.rounds):
            part = slice(i * args.positions, (i + 1) * args.positions)
            ours, scores = measure(
                functools.partial(pool.evaluate, positions[part]),
                pool.engine_pids(),
                args.positions,
            )
            theirs, rival_scores = measure(
                functools.partial(rival.evaluate, boards[part]), rival.pids(), args.positions
            )
            rounds["pool"].append(ours)
            rounds["python-chess"].append(theirs)
            different += int((np.clip(rival_scores, -10_000, 10_000) != scores).sum())
        rival.close()
        identity = pool.id

    table = {
        name: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for name, rows in rounds.items()
    }
    ratios = [
        a["queries_per_s"] / b["queries_per_s"] for a, b in zip(*rounds.values(), strict=True)
    ]
    rows = [
        {
            "contestant": name,
            "engines_busy_percent": round(100 * row["engines_busy"]),
            "python_us_per_query": round(row["python_us_per_query"], 1),
            "queries_per_s": round(row["queries_per_s"]),
            "times_python_chess": round(statistics.median(ratios), 2) if name == "pool" else 1.0,
        }
        for name, row in table.items()
    ]
    print(f"{identity}, {args.engines} engines, {args.rounds} rounds of {args.positions} positions")
    print_table(rows)
    print(f"{different} of {args.positions * args.rounds} scores differ")
    save(
        args.json,
        "stockfish_pool",
        rows,
        evaluator=identity,
        engines=args.engines,
        positions_per_round=args.positions,
        rounds=args.rounds,
        ratios=[round(ratio, 2) for ratio in ratios],
        different_scores=different,
    )


if __name__ == "__main__":
    main()
