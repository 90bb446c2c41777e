"""Run folders written by hand, for the tests of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.reports.run_files import RunRecord, read_run
from algorithms.run_folder.atomic_files import closed_object

ENVIRONMENT = {
    "started": "2026-11-20T20:00:00+00:00",
    "command": ["chess-lab", "train", "grpo", "--seed", "1"],
    "evaluator": "builtin-v1",
    "device": "cpu",
    "git": {"commit": "5c299d56d63d18d8e9048acb319e31e051eca74f", "dirty": True},
    "python": "3.11.7",
    "packages": {"numpy": "2.4.6"},
}


def row(step: int, **metrics: float | None) -> dict[str, float | None]:
    """A row of metrics.jsonl; `eval__entropy` stands for eval/entropy."""
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    return {"step": step, "scored_moves": 100 * step, **named}


def config(preset: str = "grpo", seed: int = 1, **settings: Any) -> dict[str, Any]:
    regularizer = {"ent_coef": settings.pop("ent_coef", 0.1), "kl_old_coef": 0.0}
    return {"algorithm": {"name": preset, "group_size": 8}, "regularizer": regularizer,
            "seed": seed, "preset": preset, **settings}  # fmt: skip


def learning_rows(regret_end: float = 100.0) -> list[dict[str, float | None]]:
    """Five updates with most of what a page draws."""
    rows = [row(0, eval__regret_cp=400.0, eval__entropy=3.0, eval__effective_moves=20.0)]
    for step in range(1, 6):
        share = step / 5
        rows.append(
            row(step, eval__regret_cp=400.0 + share * (regret_end - 400.0), eval__entropy=3.0 - share,
                rollout__reward_mean=-0.5 + share / 5, policy__entropy=3.0 - share, reg__kl_old=0.01,
                reg__ent_coef=0.1, grad_share__policy=0.75, grad_share__entropy=0.25,
                grad_share__policy_norm=3.0, loss_share__policy=0.1, loss_share__entropy=0.9,
                entropy__measured=-0.1 * step, entropy__dh_realised=-0.1 * step,
                clip__up_p_below_01=0.5, clip__down_p_above_90=0.25)
        )  # fmt: skip
    return rows


def write_run(
    folder: Path,
    rows: Sequence[Mapping[str, float | None]] | None = None,
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, Any] | None = None,
) -> Path:
    """The folder, made, with its three files."""
    folder.mkdir(parents=True)
    lines = [f"{json.dumps(values)}\n" for values in (learning_rows() if rows is None else rows)]
    (folder / "metrics.jsonl").write_text("".join(lines))
    if config is not None:
        (folder / "config.json").write_bytes(closed_object(config))
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT | dict(environment or {})))
    return folder


def run_of(folder: Path, **settings: Any) -> RunRecord:
    """The record of a run with these settings, written to `folder`."""
    return read_run(write_run(folder, config=config(**settings)))
