"""Entropy against held-out regret: GRPO, PPO, RLOO and Delightful PG, several seeds each, without any entropy bonus.

    python -m benchmarks.learning.algorithms --json benchmarks/results/algorithms.json

All runs have the same credit horizon (one ply), the same budget in scored moves, the same rollouts
(32 fresh positions, 8 moves of each), the same step size and the same network; regularisation is
off, so that what is seen is the algorithm's own doing. GRPO also runs with four passes over each
batch, which shows what the reuse of a batch costs. PPO makes four passes by default. The whole
takes half an hour or more on two cores.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.records.command_line import trained
from benchmarks.records.report import print_table, save

SHARED = shlex.split(
    "--policy.network resnet --rollout.num-envs 32 --rollout.num-plies 1 --optimizer.minibatch-size 32 "
    "--regularizer.ent-coef 0 --regularizer.ent-coef-final None "
    "--eval-interval-updates 20 --diagnostics-interval-updates 1000000 "
    "--checkpoint-interval-updates 1000000"
)
ENTRIES: dict[str, list[str]] = {
    "grpo": ["grpo"],
    "grpo, 4 passes": ["grpo", "--algorithm.update-epochs", "4"],
    "ppo_one_ply": ["ppo_one_ply"],
    "rloo": ["rloo"],
    "delightful_pg": ["delightful_pg"],
}
NAMES = ("scored_moves", "eval/regret_cp", "eval/regret_cp_greedy", "eval/entropy")
LEVELS = (0.8, 0.6, 0.5, 0.4)


def run(entry: str, seed: int, arguments: list[str]) -> dict[str, Any]:
    """Result and curve of one training run in a process of its own, of what follows `chess-lab train`."""
    summary, rows = trained(seed, arguments)
    curve = [[round(row[name], 3) for name in NAMES] for row in rows]
    print(f"{entry}, seed {seed}: {summary['percent_of_start']:.1f} % of the start", flush=True)
    return {
        "algorithm": entry,
        "seed": seed,
        "percent_of_start": round(summary["percent_of_start"], 1),
        "entropy_end": curve[-1][3],
        "scored_moves": summary["scored_moves"],
        "cpu_minutes": round(summary["cpu_s"] / 60, 1),
        "evaluator": summary["evaluator"],
        "curve": curve,
    }


def entropy_at(curve: list[list[float]], level: float) -> float | None:
    """Held-out entropy, nats, where the regret first falls to `level` times its start; None if it never does."""
    goal = level * curve[0][1]
    for before, after in itertools.pairwise(curve):
        if after[1] <= goal:
            share = (before[1] - goal) / (before[1] - after[1])
            return before[3] + share * (after[3] - before[3])
    return None


def spread(values: list[float | None]) -> str:
    """Median (lowest to highest) of what every seed reached, or a dash."""
    reached = [value for value in values if value is not None]
    if len(reached) < len(values) or not reached:
        return f"{len(reached)} of {len(values)} seeds"
    return f"{statistics.median(reached):.2f} ({min(reached):.2f} to {max(reached):.2f})"


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row an algorithm: its end, and its entropy at equal regret."""
    rows = []
    for name in dict.fromkeys(entry["algorithm"] for entry in runs):
        own = [entry for entry in runs if entry["algorithm"] == name]
        row: dict[str, Any] = {"algorithm": name, "seeds": len(own)}
        row["percent_of_start"] = spread([entry["percent_of_start"] for entry in own])
        row["greedy_cp_end"] = spread([entry["curve"][-1][2] for entry in own])
        row["entropy_end"] = spread([entry["entropy_end"] for entry in own])
        for level in LEVELS:
            row[f"entropy_at_{level:.0%}"] = spread([entropy_at(e["curve"], level) for e in own])
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--moves", type=int, default=150_000, help="budget of each run")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--smoke", action="store_true", help="a tiny budget, to see that it works")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    moves = 1_024 if options.smoke else options.moves
    seeds = options.seeds[:1] if options.smoke else options.seeds
    extra = ["--total-moves", str(moves), "--env.num-engines", "1"]
    extra += ["--env.evaluator", "builtin"] if options.smoke else []
    jobs = [(entry, seed) for seed in seeds for entry in ENTRIES]
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(lambda job: run(*job, [*ENTRIES[job[0]], *SHARED, *extra]), jobs))
    runs.sort(key=lambda entry: (list(ENTRIES).index(entry["algorithm"]), entry["seed"]))
    rows = table(runs)
    print_table(rows)
    save(options.json, "algorithms", rows, flags=" ".join([*SHARED, *extra]), runs=runs)


if __name__ == "__main__":
    main()
