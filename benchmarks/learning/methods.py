"""Every method at one step size: what it learns, and the entropy that it keeps at equal regret.

    python -m benchmarks.learning.methods --out runs/methods --json benchmarks/results/methods.json

The default network from random weights, one ply of credit, the built-in evaluator, 32,768 scored moves, eight seeds. A
rollout is 8 moves of each of 32 positions and one minibatch, as in `chess-lab compare`, so that one pass is strictly
on-policy. No run has an entropy bonus, except where a bonus is the method. Methods that bound the ratio also make four
passes over each batch, where ratios leave 1. Methods that learn from success and failure are compared among
themselves. `ppo`, `exact`, `gspo` and `aepo` need rollouts of their own: each has those of its preset, and is compared
with `dr_grpo` with those of its preset. What is in OUT is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.comparison.readings import RunSummary, matched_level, summary_of
from algorithms.config.changes import changed
from algorithms.config.names import named_run
from algorithms.reports.run_files import read_metrics
from algorithms.reports.statistics import difference_interval, interquartile_mean
from algorithms.run_folder.console import Display
from algorithms.training.trainer import train
from benchmarks.learning.signal import shares
from benchmarks.records.report import print_table, save

SEEDS = tuple(range(1, 9))
TOTAL_MOVES = 32_768

Settings = Mapping[str, Any]
NO_BONUS: dict[str, Any] = {"regularizer.ent_coef": 0.0, "regularizer.ent_coef_final": None}
ROLLOUT: dict[str, Any] = {
    "rollout.num_envs": 32,
    "rollout.num_plies": 1,
    "optimizer.minibatch_size": 32,
}
HOLD: dict[str, Any] = {"regularizer.ent_hold": 1.0}
SCALED: dict[str, Any] = {"algorithm.gate_scale": "std"}

SUCCESS: dict[str, Any] = {"env.reward": "success"}

ONE_PASS: dict[str, tuple[str, Settings]] = {
    name: (name, NO_BONUS)
    for name in (
        *("dr_grpo", "reinforce", "ppo_one_ply", "grpo", "dapo", "cispo", "rloo", "delightful_pg"),
        *(
            "clip_cov",
            "kl_cov",
            "repo",
            "repo_r",
            "adapo",
            "dppo",
            "sapo",
            "ce_gppo",
            "aspo",
            "bapo",
        ),
        *("erc", "steer", "lp_reg", "flowrl"),
        *("top_entropy", "kondo"),
    )
} | {
    "delightful_pg, scaled gate": ("delightful_pg", NO_BONUS | SCALED),
    "repo_r, holds 1 nat": ("repo_r", NO_BONUS | HOLD),
    "dr_grpo, adaptive bonus": (
        "dr_grpo",
        {
            "regularizer.ent_controller": "adaptive",
            "regularizer.ent_floor": 1.0,
            "regularizer.ent_coef": 0.001,
            "regularizer.ent_coef_final": None,
        },
    ),
}
"""Label -> preset and settings; the first is what the others are compared with."""

ON_SUCCESS: dict[str, tuple[str, Settings]] = {
    f"{name}, success": (name, NO_BONUS | SUCCESS) for name in ("dr_grpo", "grpo", "rloo")
} | {name: (name, NO_BONUS) for name in ("maxrl", "pass_at_k", "w_reinforce", "nsr")}

FOUR_PASSES: dict[str, tuple[str, Settings]] = {
    f"{name}, 4 passes": (name, NO_BONUS | {"algorithm.update_epochs": 4})
    for name in (
        *("dr_grpo", "grpo", "dapo", "cispo", "clip_cov", "kl_cov", "repo"),
        *("dppo", "sapo", "ce_gppo", "aspo", "bapo", "erc", "steer", "lp_reg"),
    )
} | {
    f"{label}, 4 passes": (name, NO_BONUS | settings | {"algorithm.update_epochs": 4})
    for label, name, settings in (
        ("dr_grpo, dual clip", "dr_grpo", {"algorithm.dual_clip": 3.0}),
        ("adapo, holds 1 nat", "adapo", HOLD),
        ("repo_r, holds 1 nat", "repo_r", HOLD),
    )
}

OWN_ROLLOUT: dict[str, tuple[str, Settings]] = {
    f"{name}, own rollout": (name, NO_BONUS) for name in ("dr_grpo", "ppo", "exact", "gspo", "aepo")
}


def run_one(label: str, seed: int, folder: Path) -> tuple[RunSummary, dict[str, float]]:
    """The readings of one run and what its signal chain keeps; it is made where its folder is not there yet."""
    own = label in OWN_ROLLOUT
    preset, settings = (ONE_PASS | ON_SUCCESS | FOUR_PASSES | OWN_ROLLOUT)[label]
    if not folder.exists():
        config = changed(named_run(preset), ({} if own else ROLLOUT) | dict(settings))
        env = dataclasses.replace(config.env, evaluator="builtin", num_threads=1)
        config = dataclasses.replace(config, env=env, total_moves=TOTAL_MOVES, seed=seed)
        every = 1 if own and preset != "ppo" else 8  # its rollouts are as small as the others'
        looks: dict[str, Any] = {
            "diagnostics_interval_updates": 2 * every, "eval_interval_updates": every,
        }  # fmt: skip
        config = dataclasses.replace(config, device="cpu", run_dir=folder, **looks)
        train(config, display=Display())
    rows = read_metrics(folder)
    return summary_of(rows, label, seed, "builtin"), shares(rows)


Gap = tuple[float, float, float]
"""Interquartile mean of the differences from the base, and the ends of its 95 % interval."""


def gap(ours: Sequence[float], theirs: Sequence[float]) -> Gap:
    """Over the seeds, which are in the same order."""
    differences = np.array(ours) - np.array(theirs)
    interval = difference_interval(differences)
    return mean(differences), float(interval.low), float(interval.high)


def gaps_of(ours: Sequence[RunSummary], theirs: Sequence[RunSummary]) -> dict[str, Any]:
    """The distances from the base: of the regret at the end, and of the entropy at the deepest regret of both."""
    level = matched_level(ours, theirs)
    found: dict[str, Any] = {
        "level": level,
        "regret": gap(*([run.percent_of_start for run in runs] for runs in (ours, theirs))),
    }
    if level is not None:
        at = [[float(run.entropy_at(level) or 0.0) for run in runs] for runs in (ours, theirs)]
        found["entropy"] = gap(*at)
    return found


def mean(values: Any) -> float:
    """The interquartile mean over the seeds."""
    return float(interquartile_mean(values))


def told(values: Gap | None, digits: int) -> str:
    """For a table; bold where the interval excludes 0."""
    if values is None:
        return ""
    middle, low, high = (f"{value:+.{digits}f}" for value in values)
    text = f"{middle} ({low} to {high})"
    return f"**{text}**" if values[1] > 0 or values[2] < 0 else text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cells = [
        (label, seed, options.out / label.replace(", ", "+").replace(" ", "_") / f"seed-{seed}")
        for label in (*ONE_PASS, *ON_SUCCESS, *FOUR_PASSES, *OWN_ROLLOUT)
        for seed in SEEDS
    ]
    with get_context("spawn").Pool(options.jobs) as pool:
        found = pool.starmap(run_one, cells, chunksize=1)
    rows, gaps = [], []
    tables = {"1": ONE_PASS, "success": ON_SUCCESS, "4": FOUR_PASSES, "own": OWN_ROLLOUT}
    for table, labels in tables.items():
        base = next(iter(labels))
        of = {label: [run for run, _ in found if run.column == label] for label in labels}
        for label, ours in of.items():
            own = {} if label == base else gaps_of(ours, of[base])
            kept = [chain["left of it all"] for run, chain in found if run.column == label]
            rows.append({
                "table": table,
                "method": label,
                "regret at the end, % of the start": f"{mean([r.percent_of_start for r in ours]):.1f}",
                "against the base": told(own.get("regret"), 1),
                "entropy at the end, nats": f"{mean([r.entropy[-1] for r in ours]):.2f}",
                "at equal regret, against the base": told(own.get("entropy"), 2),
                "at, %": own.get("level"),
                "signal kept": f"{np.nanmean(kept):.2f}",
            })  # fmt: skip
            gaps.append({"base": base, "method": label, **own})
    print_table([{name: value for name, value in row.items() if name != "table"} for row in rows])
    save(options.json, "methods", rows, seeds=len(SEEDS), total_moves=TOTAL_MOVES, gaps=gaps)


if __name__ == "__main__":
    main()
