"""Speed of the built-in evaluator.

    python -m benchmarks.speed.builtin_evaluator --json benchmarks/results/builtin_evaluator.json

Positions per CPU-second of this process on positions from random play, rounds interleaved.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.records.report import print_table, save
from chess_env.evaluators import Evaluator, make_evaluator
from chess_env.evaluators.builtin import MAX_DEPTH
from chess_env.rules.fen import pack_fens
from chess_env.rules.rules import ONGOING, apply_batch, legal_actions_batch, status_batch

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
MAX_PLIES = 80


def random_play(count: int, seed: int, boards: int = 256) -> NDArray[np.uint64]:
    """uint64 [count, 8]: positions of uniformly random games of at most 80 plies, the initial one left out."""
    rng = np.random.default_rng(seed)
    start = pack_fens([START])
    games, ply = np.repeat(start, boards, axis=0), np.zeros(boards, int)
    seen: list[NDArray[np.uint64]] = []
    while sum(map(len, seen)) < count:
        over = (status_batch(games) != ONGOING) | (ply >= MAX_PLIES)
        games[over], ply[over] = start, 0
        legal_ids, num_legal = legal_actions_batch(games)
        drawn = (rng.random(boards) * num_legal).astype(int)
        games, ply = apply_batch(games, legal_ids[np.arange(boards), drawn]), ply + 1
        seen.append(games[status_batch(games) == ONGOING])
    return np.concatenate(seen)[:count]


def positions_per_cpu_s(work: Callable[[], int]) -> float:
    """Positions scored per second of this process's CPU time."""
    started = time.process_time()
    count = work()
    return count / (time.process_time() - started)


def _score(evaluator: Evaluator, positions: NDArray[np.uint64]) -> int:
    return len(evaluator.evaluate(positions))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--positions", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=None, metavar="PATH")
    arguments = parser.parse_args()

    builtin = make_evaluator("builtin")
    positions = random_play(arguments.positions, seed=1)
    parents = positions[:: max(1, len(positions) // 200)]

    def score_all_moves() -> int:
        return sum(map(len, builtin.score_moves(parents)))

    def score_in_chunks() -> int:
        return sum(
            len(builtin.evaluate(positions[i : i + 64])) for i in range(0, len(positions), 64)
        )

    contestants: dict[str, Callable[[], int]] = {
        "evaluate, one batch": partial(_score, builtin, positions),
        "evaluate, batches of 64": score_in_chunks,
        "score_moves (per move)": score_all_moves,
    }
    for depth in range(1, MAX_DEPTH + 1):
        deeper = make_evaluator(f"builtin:depth={depth}")
        some = positions[:: 4**depth]
        contestants[f"evaluate, one batch, depth {depth}"] = partial(_score, deeper, some)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    builtin.evaluate(positions)  # compiles
    before = builtin.counters()
    builtin.evaluate(positions)
    after = builtin.counters()
    nodes = (after["nodes"] - before["nodes"]) / (
        after["unique_queries"] - before["unique_queries"]
    )
    for _ in range(arguments.rounds):
        for name, work in contestants.items():
            rates[name].append(positions_per_cpu_s(work))
    speed = [
        {
            "contestant": name,
            "positions_per_cpu_s": round(statistics.median(values)),
            "lowest": round(min(values)),
            "highest": round(max(values)),
        }
        for name, values in rates.items()
    ]
    print(f"{nodes:.1f} nodes per position of random play")
    print_table(speed)

    save(
        arguments.json,
        "builtin_evaluator",
        speed,
        rounds=arguments.rounds,
        positions=arguments.positions,
        nodes_per_position=round(nodes, 1),
    )


if __name__ == "__main__":
    main()
