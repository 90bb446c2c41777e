"""Where the learning signal of four algorithms goes: the signal chain of sound runs from random weights.

    python -m benchmarks.learning.signal --out runs/signal --json benchmarks/results/signal.json

The default network and settings, the built-in evaluator, 40,960 moves, eight seeds. Every second update is measured; of
PPO, whose updates are an eighth as large, every eighth. What is in OUT is not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from algorithms import PRESETS
from benchmarks.doctor.matrix import read, regrets
from benchmarks.doctor.such_runs import run
from benchmarks.records.report import print_table, save

ALGORITHMS = ("grpo", "ppo", "rloo", "delightful_pg")
SEEDS = tuple(range(81, 89))
TOTAL_MOVES = 40_960


def shares(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What each stage of a run keeps, as quotients of means over its measured updates; percent of the regret gained."""
    measured = [row for row in rows if row.get("signal/objective") is not None]

    def column(name: str) -> Any:
        return np.array([row[f"signal/{name}"] for row in measured])

    drawn = column("draw") * column("reward")
    credited = drawn * column("credit")
    built = credited * column("ratio") * column("passes")
    whole = built * column("objective")
    return {
        "draw": float(drawn.mean()),
        "draw expected": float(column("draw_expected").mean()),
        "credit": float(credited.mean() / drawn.mean()),
        "passes and clip": float(built.mean() / credited.mean()),
        "objective": float(whole.mean() / built.mean()),
        "left of it all": float(whole.mean()),
        "gain a thousand moves, % of the regret": _per_thousand(measured),
        "regret at the end, cp": regrets(rows)[1],
    }


def _per_thousand(measured: Sequence[dict[str, Any]]) -> float:
    gained = np.mean([row["signal/gain_measured"] for row in measured])
    moves = measured[-1]["scored_moves"] / measured[-1]["step"]
    return float(100 * gained * 1000 / moves)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    rows = []
    for preset in ALGORITHMS:
        found = []
        for seed in SEEDS:
            folder = options.out / f"{preset}-{seed}"
            if not folder.exists():
                every = 8 if PRESETS[preset][0].group_size == 1 else 2
                looks = {"eval_interval_updates": 2 * every, "diagnostics_interval_updates": every}
                run(preset, TOTAL_MOVES, seed, folder, **looks)
            found.append(shares(read(folder)))
        row: dict[str, Any] = {"algorithm": preset}
        for name in found[0]:
            values = [each[name] for each in found]
            digits = 0 if name.startswith("regret") else 2
            row[name] = (
                f"{np.mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
            )
        rows.append(row)
    print_table(rows)
    save(options.json, "signal", rows, seeds=list(SEEDS), total_moves=TOTAL_MOVES)


if __name__ == "__main__":
    main()
