"""Does entropy that was kept pay later? Two runs to one regret, one of them with a bonus, then both alike without it.

    python -m benchmarks.learning.entropy_pays --out runs/pays --json benchmarks/results/entropy_pays.json

GRPO from random weights on the default network, with a bonus of .3 and without, each to the evaluation nearest to a
level, a share of the first regret. From these two policies two more runs of the same settings, without a bonus, on one
seed. Compared, seed by seed: entropy, pass@8 and regret where they part, and the regret at the end. A run that stays
above the level by more than a twentieth has none. What is in OUT is not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from algorithms import PRESETS
from algorithms.config.run import EnvConfig, OptimizerConfig, TrainConfig
from algorithms.regularization import RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.reports.statistics import difference_interval, interquartile_mean, sign_flip_p
from algorithms.run_folder.console import Display
from benchmarks.records.report import print_table, save

SEEDS = tuple(range(4001, 4013))
BONUSES = {"kept": 0.3, "spent": 0.0}
LEVELS = (0.6, 0.45)
MOVES, LATER = 60 * 1024, 60 * 1024
SHOWN = {
    "regret_cp": "regret, cp",
    "entropy": "entropy, nats",
    "pass_at_8": "pass@8",
    "end_cp": "regret at the end, cp",
    "end_entropy": "entropy at the end, nats",
}
"""Key of a row -> what the table calls it."""


def run(folder: Path, seed: int, ent_coef: float, total_moves: int, init_from: str | None) -> None:
    """Leaves a run folder, evaluated at every update; one from random weights also keeps each policy."""
    from algorithms.training.trainer import train

    if (folder / "result.json").exists():
        return
    config = TrainConfig(
        PRESETS["grpo"][0],
        RegularizerConfig(ent_coef=ent_coef),
        env=EnvConfig(evaluator="builtin", num_threads=1, num_engines=1),
        optimizer=OptimizerConfig(lr_final=None),
        total_moves=total_moves,
        init_from=init_from,
        seed=seed,
        eval_interval_updates=1,
        checkpoint_interval_updates=10**9,
        checkpoint_keep=64 if init_from is None else None,
        diagnostics_interval_updates=10**9,
        signal_chain="off",
        preflight=False,
        device="cpu",
        run_dir=folder,
        preset="grpo",
    )
    result = train(config, display=Display())
    (folder / "result.json").write_text(json.dumps(result.to_dict()), encoding="utf-8")


def evaluations(folder: Path) -> list[dict[str, Any]]:
    """The rows with an evaluation."""
    return [row for row in read_metrics(folder) if row.get("eval/regret_cp") is not None]


def measured(out: Path, seed: int) -> Iterable[dict[str, Any]]:
    """A row for each level and side of a seed; a level that a side does not reach has none."""
    for side, ent_coef in BONUSES.items():
        first = out / f"{side}-{seed}"
        run(first, seed, ent_coef, MOVES, None)
        rows = evaluations(first)
        for level in LEVELS:
            wanted = level * rows[0]["eval/regret_cp"]
            at = min(rows, key=lambda row: abs(row["eval/regret_cp"] - wanted))
            if at["eval/regret_cp"] > 1.05 * wanted:
                continue
            weights = first / "snapshots" / f"update-{int(at['step']):08d}"
            later = out / f"{side}-{seed}-{level:g}"
            run(later, seed + 1000, 0.0, LATER, str(weights))
            end = evaluations(later)[-1]
            yield {
                "seed": seed, "level": level, "side": side, "update": int(at["step"]),
                "regret_cp": at["eval/regret_cp"], "entropy": at["eval/entropy"], "pass_at_8": at["eval/pass_at_8"],
                "end_cp": end["eval/regret_cp"], "end_entropy": end["eval/entropy"],
            }  # fmt: skip


def compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for each level and quantity: both sides, and kept minus spent over the seeds that have both."""
    lines = []
    for level in LEVELS:
        sides = {
            side: {row["seed"]: row for row in rows if (row["level"], row["side"]) == (level, side)}
            for side in BONUSES
        }
        seeds = sorted(sides["kept"].keys() & sides["spent"].keys())
        for name, title in SHOWN.items():
            values = {
                side: [by_seed[seed][name] for seed in seeds] for side, by_seed in sides.items()
            }
            change = [kept - spent for kept, spent in zip(*values.values(), strict=True)]
            ends, digits = difference_interval(change), 1 if name.endswith("cp") else 3
            lines.append({
                "level, % of the start": f"{100 * level:g}",
                "seeds": len(seeds),
                "quantity": title,
                **{side: f"{float(interquartile_mean(own)):.{digits}f}" for side, own in values.items()},
                "kept minus spent": f"{float(interquartile_mean(change)):+.{digits}f} "
                f"({ends.low:+.{digits}f} to {ends.high:+.{digits}f})",
                "p": f"{float(sign_flip_p(change)):.4f}",
            })  # fmt: skip
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    rows = [row for seed in SEEDS for row in measured(options.out, seed)]
    lines = compared(rows)
    print_table(lines)
    save(options.json, "entropy_pays", lines, seeds=list(SEEDS), runs=rows)


if __name__ == "__main__":
    main()
