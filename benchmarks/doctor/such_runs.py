"""Curves of runs as they are without a fault, for `chess-lab diagnose` to compare others with.

    python -m benchmarks.doctor.such_runs --out runs/such

Every preset on the default network from random weights, the built-in evaluator, two budgets, three seeds; PPO, whose
updates are small, has the smaller budget alone. What is in OUT is not run again. The curves are written to
algorithms/doctor/such_runs.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from algorithms import PRESETS
from algorithms.config.run import EnvConfig, TrainConfig
from algorithms.doctor.pace import SUCH_RUNS, curve_of, settings_of
from algorithms.reports.run_files import read_run
from algorithms.run_folder.console import Display

SEEDS = (31, 32, 33)
BUDGETS = (40_960, 300_000)


def run(preset: str, total_moves: int, seed: int, folder: Path, **changes: Any) -> None:
    """Leaves a run folder.

    Args:
        preset: the algorithm.
        total_moves: budget.
        seed: of the run.
        folder: where it is made.
        changes: of the configuration.
    """
    from algorithms.training.trainer import train

    config = TrainConfig(
        *PRESETS[preset],
        preset=preset,
        env=EnvConfig(evaluator="builtin", num_threads=1),
        total_moves=total_moves,
        seed=seed,
        device="cpu",
        run_dir=folder,
    )
    train(dataclasses.replace(config, **changes), display=Display())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    entries: list[dict[str, Any]] = []
    for preset in PRESETS:
        for total_moves in BUDGETS[: 1 if preset == "ppo" else 2]:
            folders = [options.out / f"{preset}-{total_moves}-{seed}" for seed in SEEDS]
            for seed, folder in zip(SEEDS, folders, strict=True):
                if not folder.exists():
                    every = 40 if preset == "ppo" else 10
                    run(
                        preset,
                        total_moves,
                        seed,
                        folder,
                        eval_interval_updates=every,
                        signal_chain="off",
                    )
            records = [read_run(folder) for folder in folders]
            curves = [curve_of(record.rows) for record in records]
            entries.append({
                "total_moves": total_moves,
                "settings": dict(settings_of(records[0].config)),
                "moves": curves[0][0].tolist(),
                "regret_cp": [[round(value, 1) for value in curve[1]] for curve in curves],
            })  # fmt: skip
    text = ",\n".join(json.dumps(entry) for entry in entries)
    SUCH_RUNS.write_text(f"[\n{text}\n]\n", "utf-8")


if __name__ == "__main__":
    main()
