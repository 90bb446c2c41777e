"""Held-out regret of each network after the same CPU-minutes of self-play, engine included.

    python -m benchmarks.networks.by_cpu_time --out runs/networks --json benchmarks/results/networks.json

Each run is `chess-lab train ALGORITHM --policy.network NAME --policy.size SIZE` with the network's own step size,
which falls to 0 at the end of its budget. A budget is counted in scored moves: a first run of 65,536 moves tells how
many of them a CPU-second pays for, once all is loaded. The table has the CPU-minutes that were used. Runs that are
there are only read, so the command can be stopped and given again.
Step sizes were chosen on seeds 11 and 12; the table has other seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.records.command_line import chess_lab
from benchmarks.records.report import print_table, save

NETWORKS = (
    "move_net:medium",
    "move_net:large",
    "transformer:small",
    "resnet:small",
    "resnet:medium",
)
MINUTES = (0.5, 2.0)
CALIBRATION_MOVES = 65_536
COLUMNS = ("eval/regret_cp", "eval/regret_cp_greedy", "eval/entropy")


def train(folder: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """The result of the run in `folder`, which is made where it is not there."""
    result = (
        folder.parent / f"{folder.name}.json"
    )  # a budget of half a minute has a dot in its name
    if not result.exists():
        if folder.exists():
            chess_lab("train", "--resume", str(folder), "--json", str(result))
        else:
            chess_lab("train", *arguments, "--run-dir", str(folder), "--json", str(result))
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def learning_cpu_s(folder: Path, skipped: int = 0) -> tuple[float, int]:
    """(CPU-seconds, scored moves) of a run from one row to its last; the first row is that before any update."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "time/cpu_s" in row]
    first, last = rows[skipped], rows[-1]
    moves = int(last["scored_moves"] - first["scored_moves"])
    return last["time/cpu_s"] - first["time/cpu_s"], moves


def measure(
    out: Path, algorithm: str, network: str, minutes: float, seed: int, evaluator: str
) -> dict[str, Any]:
    """A row of the table: one network, budget and seed."""
    name, _, size = network.partition(":")
    settings = [
        *(algorithm, "--policy.network", name, "--policy.size", size, "--seed", str(seed)),
        *("--env.evaluator", evaluator, "--diagnostics-interval-updates", "1000000"),
    ]
    label = f"{algorithm}-{network.replace(':', '-')}-{evaluator.partition(':')[0]}"
    first = out / f"{label}-calibration"
    few = ["--total-moves", str(CALIBRATION_MOVES), "--eval-interval-updates", "1000000"]
    train(first, [*settings, *few])
    cpu_s, moves = learning_cpu_s(first, skipped=8)
    total = round(60 * minutes * moves / cpu_s)
    folder = out / f"{label}-{minutes:g}min-seed{seed}"
    every = max(1, total // 2048 // 10)
    budget = ["--total-moves", str(total), "--eval-interval-updates", str(every)]
    result = train(folder, [*settings, *budget])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = [row for row in lines if COLUMNS[0] in row][-1]
    return {
        "algorithm": algorithm,
        "network": network,
        "minutes": minutes,
        "seed": seed,
        "scored_moves": int(last["scored_moves"]),
        "cpu_minutes": round(learning_cpu_s(folder)[0] / 60, 2),
        "regret_cp": round(last["eval/regret_cp"], 1),
        "regret_cp_greedy": round(last["eval/regret_cp_greedy"], 1),
        "entropy": round(last["eval/entropy"], 2),
        "lowest_entropy": round(result["entropy_min"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/networks"))
    parser.add_argument("--algorithms", nargs="+", default=["grpo"])
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--minutes", type=float, nargs="+", default=list(MINUTES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--evaluator", default="builtin")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in arguments.seeds:  # seed by seed, so that a drift of the machine is everyone's
        for minutes in arguments.minutes:
            for algorithm in arguments.algorithms:
                for network in arguments.networks:
                    row = measure(
                        arguments.out, algorithm, network, minutes, seed, arguments.evaluator
                    )
                    print(row, flush=True)
                    rows.append(row)
    print_table(rows)
    save(arguments.json, "networks", rows, evaluator=arguments.evaluator)


if __name__ == "__main__":
    main()
