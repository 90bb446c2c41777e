"""Records written by hand for the doctor: a healthy one, and what each cause changes in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

UPDATES, EVAL_INTERVAL = 16, 4

Values = float | Sequence[float | None] | None
"""Of a metric: one for all updates, one for each, or None to leave it out."""

Rows = list[dict[str, Any]]

SLOPE, RESIDUAL = "ratio/log_odds_slope_first_minibatch", "ratio/log_odds_residual_first_minibatch"
SAMPLES = {
    "step0/log_odds_slope": 1.0, "step0/log_odds_residual": 1e-7, "step0/repeat_error": 0.0,
}  # fmt: skip
"""Looked at before the first update alone."""

HEALTHY: dict[str, Values] = {
    "train/passes": 1.0, "train/learning_rate": 4e-4, "train/policy_loss": -0.1,
    "policy/approx_kl": 0.02, "policy/approx_kl_first_minibatch": 0.0,
    "policy/clip_fraction_high": 0.04, "policy/clip_fraction_low": 0.04,
    "clip/up_p_01_10": 0.1, "clip/up_p_10_50": 0.05,
    "clip/down_p_01_10": 0.1, "clip/down_p_10_50": 0.05,
    "ratio/ess": 0.95, "ratio/ess_first_minibatch": 1.0, SLOPE: 1.0, RESIDUAL: 1e-7,
    "reg/ent_coef": 0.2, "reg/kl_old": 0.01, "reg/kl_old_coef": 0.1, "reg/kl_old_weighted": 0.001,
    "reg/kl_ref_coef": 0.0, "reg/controller_saturated": 0.0,
    "grad_share/policy": 0.8, "grad_share/entropy": 0.2,
    "probe/entropy": 2.5, "probe/optimum_entropy": 1.8,
    "signal/vanished": 0.0, "signal/samples": 8.0, "signal/draw": 0.82,
    "signal/draw_expected": 0.82, "signal/reward": 1.0, "signal/credit": 0.92,
    "signal/ratio": 1.0, "signal/objective": 0.85, "signal/clip": 0.8, "signal/passes": 0.95,
    "signal/step": 1.0, "signal/gain": 0.03, "signal/gain_measured": 0.03, "signal/gain_long": 0.1,
    "signal/data": 0.9, "signal/explore": 0.6,
    "rollout/temperature": 1.0, "rollout/reward_mean": [0.1, 0.12] * 8,
    "rollout/reward_median": 0.1, "rollout/reward_p90": 0.3, "rollout/blind_fraction": 0.05,
    "rollout/reward_zero_std_fraction": 0.04, "rollout/single_move_fraction": 0.03,
    "rollout/distinct_moves_mean": 6.0, "rollout/repeated_fraction": 0.0,
}  # fmt: skip
"""What every update has; entropies follow from `record`."""


def record(
    updates: int = UPDATES,
    *,
    entropy: tuple[float, float] = (2.8, 2.4),
    regret_cp: tuple[float, float] = (300.0, 150.0),
    normalized: float = 0.7,
    sampled: Sequence[float] | None = None,
    **changes: Values,
) -> Rows:
    """The rows of a run: `updates` of them, evaluated before the first, after each fourth and after the last.

    Args:
        updates: how many.
        entropy: held-out, at the start and at the end; on a line between, and the same while sampling.
        regret_cp: likewise.
        normalized: entropy as a share of the largest, at the end.
        sampled: what the bonus rewards as entropy, if it is another number.
        changes: of `HEALTHY` and `SAMPLES`; `__` stands for `/`.
    """

    def between(ends: tuple[float, float], update: int) -> float:
        return ends[0] + (ends[1] - ends[0]) * update / updates

    named = HEALTHY | SAMPLES | {name.replace("__", "/"): value for name, value in changes.items()}
    rows: Rows = []
    for update in range(updates + 1):
        row: dict[str, Any] = {"step": update, "scored_moves": 64 * update}
        nats = between(entropy, update)
        for name, value in named.items() if update else ():
            if value is None or (name in SAMPLES and update > 1):
                continue
            row[name] = value[update - 1] if isinstance(value, Sequence) else value
        if update:
            row.setdefault("policy/entropy", nats)
            row.setdefault("reg/entropy", nats)
            paid = row["reg/entropy"] if sampled is None else sampled[update - 1]
            row["reg/entropy_weighted"] = -row.get("reg/ent_coef", 0.0) * paid
        if update % EVAL_INTERVAL == 0 or update == updates:
            row |= {
                "eval/regret_cp": between(regret_cp, update),
                "eval/entropy": nats,
                "eval/entropy_normalized": between((0.8, normalized), update),
                "eval/pass_at_8": between((0.5, 0.6), update),
            }
        rows.append(row)
    return rows


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every metric of a record, but the step."""
    return sorted({name for row in rows for name in row} - {"step"})


def keeping(rows: Rows, keep: Callable[[str], bool]) -> Rows:
    """The rows with the step and the metrics that are kept."""
    return [{k: v for k, v in row.items() if k == "step" or keep(k)} for row in rows]


def without(rows: Rows, *metrics: str, null: bool = False) -> Rows:
    """The rows with the metrics left out, or null."""
    if null:
        return [{k: None if k in metrics else v for k, v in row.items()} for row in rows]
    return keeping(rows, lambda name: name not in metrics)


def write(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """The folder, made, with the rows as its metrics.jsonl."""
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def without_chain(rows: Rows) -> Rows:
    """The rows of a run that measured no signal chain."""
    return keeping(rows, lambda name: not name.startswith("signal/"))
