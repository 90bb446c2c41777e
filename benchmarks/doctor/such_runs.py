"""Curves of runs as they are without a fault, for `chess-lab diagnose` to compare others with.

    python -m benchmarks.doctor.such_runs --out runs/such

Every preset on the default network from random weights, the built-in evaluator, three seeds; some presets also on
other networks (six seeds on `resnet`), from trained policies, or with a larger budget. What is in OUT is not run again.
The curves are added to algorithms/doctor/such_runs.json; those of settings that are there already are not made again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from algorithms import PRESETS
from algorithms.config.files import to_dict
from algorithms.config.run import EnvConfig, TrainConfig
from algorithms.doctor.pace import SINCE, SUCH_RUNS, curve_of, settings_of, such_runs
from algorithms.networks.settings import NetworkConfig
from algorithms.reports.run_files import read_run
from algorithms.run_folder.console import Display

SEEDS = (31, 32, 33)
MORE_SEEDS = (34, 35, 36)
"""On `resnet` from random weights besides: some seeds begin to learn late there, and three tell little of how many."""

BUDGET, LARGE_BUDGET = 40_960, 300_000
NETWORKS = ("move_net", "resnet", "transformer")
WARM = {"move_net": "warm_move_net", "resnet": "warm"}
"""Trained policies that are shipped for runs to start from."""

SOME = (
    "reinforce",
    "ppo_one_ply",
    "grpo",
    "dr_grpo",
    "dapo",
    "cispo",
    "rloo",
    "delightful_pg",
    "clip_cov",
    "exact",
)
"""Presets with all of that."""

NEEDS_GAMES = ("gspo",)
"""Presets that have no runs over single positions."""


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

    config = config_of(preset, total_moves, seed=seed, run_dir=folder, **changes)
    train(config, display=Display())


def config_of(preset: str, total_moves: int, **changes: Any) -> TrainConfig:
    """The configuration of such a run."""
    config = TrainConfig(
        *PRESETS[preset],
        preset=preset,
        env=EnvConfig(evaluator="builtin", num_threads=1),
        total_moves=total_moves,
        device="cpu",
    )
    return dataclasses.replace(config, **changes)


def same(known: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether they are the same, but for what is younger than the known ones."""
    return {**SINCE, **known} == {**SINCE, **settings}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    entries: list[dict[str, Any]] = json.loads(SUCH_RUNS.read_text("utf-8"))
    default, *others = NETWORKS
    jobs: list[tuple[str, str, str | None, int]] = [
        (preset, default, None, BUDGET) for preset in PRESETS if preset not in NEEDS_GAMES
    ]
    for preset in SOME:
        jobs += [(preset, network, None, BUDGET) for network in others]
        jobs += [(preset, *start, BUDGET) for start in WARM.items()]
        jobs.append((preset, default, None, LARGE_BUDGET))
    for preset, network, init_from, total_moves in jobs:
        # PPO updates after every ply.
        changes: dict[str, Any] = {"eval_interval_updates": 40 if preset == "ppo" else 10}
        if network != default:
            changes["policy"] = NetworkConfig(network=network)
        if init_from is not None:
            changes["init_from"] = init_from
        config = to_dict(config_of(preset, total_moves, **changes).settled())
        known, different = such_runs(json.loads(json.dumps(config)), total_moves)
        seeds = (*SEEDS, *(MORE_SEEDS if network == "resnet" and init_from is None else ()))
        missing = seeds if different else seeds[len(known) :]
        if not missing:
            continue
        records = []
        for seed in missing:
            folder = options.out / f"{preset}-{init_from or network}-{total_moves}-{seed}"
            if not folder.exists():
                run(preset, total_moves, seed, folder, signal_chain="off", **changes)
            records.append(read_run(folder))
        moves, settings = (
            curve_of(records[0].rows)[0].tolist(),
            dict(settings_of(records[0].config)),
        )
        if different or not known:
            entries.append({
                "total_moves": total_moves, "settings": settings, "moves": moves, "regret_cp": [],
            })  # fmt: skip
        (entry,) = (
            each
            for each in entries
            if each["total_moves"] == total_moves and same(each["settings"], settings)
        )
        # Where not every move is scored, the evaluations of two seeds come a few moves apart.
        entry["regret_cp"] += [
            np.interp(entry["moves"], *curve_of(record.rows)).round(1).tolist()
            for record in records
        ]
        text = ",\n".join(json.dumps(entry) for entry in entries)
        SUCH_RUNS.write_text(f"[\n{text}\n]\n", "utf-8")


if __name__ == "__main__":
    main()
