"""Records written by hand for the doctor: a healthy one, and what each cause changes in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.run_folder.log import closed_row

UPDATES = 12

Values = float | Sequence[float | None] | None
"""Of a metric: one for all updates, one for each, or None to leave it out."""

HEALTHY: dict[str, Values] = {
    "train/steps": 8.0, "train/passes": 1.0, "train/learning_rate": 4e-4,
    "train/policy_loss": -0.01, "policy/entropy": 2.6, "policy/entropy_bound": 3.3,
    "policy/approx_kl": 0.02, "ratio/std_first_minibatch": 0.0, "ratio/ess": 0.95,
    "clip/up_p_01_10": 0.1, "clip/up_p_10_50": 0.05,
    "clip/down_p_01_10": 0.1, "clip/down_p_10_50": 0.05,
    "reg/entropy": 2.6, "reg/entropy_weighted": -0.2, "reg/kl_old": 0.01, "reg/ent_coef": 0.2,
    "reg/kl_old_coef": 0.0, "reg/kl_ref_coef": 0.0, "reg/controller_saturated": 0.0,
    "grad_share/entropy": 0.2, "probe/entropy": 2.5, "probe/optimum_entropy": 1.8,
    "rollout/temperature": 1.0, "rollout/reward_mean": [0.1, 0.12] * 6,
    "rollout/reward_zero_std_fraction": 0.02, "rollout/distinct_moves_mean": 6.0,
    "rollout/blind_fraction": 0.05, "rollout/repeated_fraction": 0.0,
    "eval/entropy_normalized": 0.8,
}  # fmt: skip
STEP0 = {
    "step0/log_odds_slope": 1.0,
    "step0/log_odds_residual": 1e-7,
    "step0/clip_fraction": 0.0,
    "step0/repeat_error": 0.0,
}


def record(
    updates: int = UPDATES,
    *,
    entropy: tuple[float, float] = (2.8, 2.6),
    regret_cp: tuple[float, float] = (300.0, 150.0),
    **changes: Values,
) -> list[dict[str, Any]]:
    """The rows of a run: an evaluation, `updates` updates, an evaluation; `__` stands for `/`."""
    named = {name.replace("__", "/"): value for name, value in changes.items()}
    rows: list[dict[str, Any]] = [
        {
            "step": 0,
            "eval/regret_cp": regret_cp[0],
            "eval/entropy": entropy[0],
            "eval/pass_at_8": 0.5,
        }
    ]
    for update in range(updates):
        row: dict[str, Any] = {"step": update + 1}
        shown = HEALTHY | (STEP0 if update == 0 else {}) | named
        for name, value in shown.items():
            if value is None or (name in STEP0 and update > 0):
                continue
            row[name] = value[update] if isinstance(value, Sequence) else value
        rows.append(row)
    rows[-1] |= {"eval/regret_cp": regret_cp[1], "eval/entropy": entropy[1], "eval/pass_at_8": 0.6}
    return rows


def without(rows: Sequence[Mapping[str, Any]], metric: str, *, null: bool) -> list[dict[str, Any]]:
    """The rows with the metric left out, or null."""
    if null:
        return [{k: None if k == metric else v for k, v in row.items()} for row in rows]
    return [{k: v for k, v in row.items() if k != metric} for row in rows]


def write(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """The folder, made, with the rows as its metrics.jsonl."""
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(closed_row(row) for row in rows))
    return folder


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a cause changes in a healthy record, and what the doctor must make of it.

    Attributes:
        name: the doctor's class.
        changes: arguments of `record`.
        confidence: that the rule must have.
        says: what must stand in its evidence.
        confirm: how the command that it names must end.
        needs: metrics without which it must say nothing.
    """

    name: str
    changes: dict[str, Any]
    confidence: float
    says: tuple[str, ...]
    confirm: str
    needs: tuple[str, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return record(**self.changes)


_SYNCED = [0.0] + 11 * [0.2]
_EXACT = "--regularizer.ent-estimator exact"

SIGNATURES = {
    "temperature": Signature(
        "temperature_mismatch",
        {"step0__log_odds_slope": 1.3, "step0__clip_fraction": 0.5, "ratio__std_first_minibatch": 0.3},
        0.99, ("1.3000 times the sampler's", "50.0% of the ratios", "a factor of 1"), "--like RUN",
        ("step0/log_odds_slope", "ratio/std_first_minibatch"),
    ),
    "other weights": Signature(
        "forward_mismatch",
        {"step0__log_odds_slope": 0.9, "step0__log_odds_residual": 0.3, "ratio__std_first_minibatch": 0.4},
        0.98, ("by 0.3 nats", "is 0.4 (median)", "another engine"),
        "--policy.head-dtype float32 --policy.dropout 0",
        ("step0/log_odds_residual", "ratio/std_first_minibatch"),
    ),
    "dropout": Signature(
        "forward_mismatch",
        {"step0__log_odds_residual": 0.3, "step0__repeat_error": 0.9, "ratio__std_first_minibatch": 0.4},
        0.98, ("differ by up to 0.9", "drawn at random"), "--policy.dropout 0",
        ("step0/log_odds_residual", "ratio/std_first_minibatch"),
    ),
    "rounding": Signature(
        "forward_mismatch",
        {"step0__log_odds_residual": 5e-4, "ratio__std_first_minibatch": 3e-3},
        0.8, ("by 0.0005 nats", "rounding"), "--policy.dropout 0",
        ("step0/log_odds_residual", "ratio/std_first_minibatch"),
    ),
    "stale": Signature(
        "stale_behaviour", {"ratio__std_first_minibatch": _SYNCED},
        0.95, ("0.0e+00 at the first", "0.20 (median)", "100% of the later ones", "0 begin at it"),
        "--rollout.sync-interval-updates 1", ("ratio/std_first_minibatch",),
    ),
    "surrogate out of range": Signature(
        "sampled_entropy_bonus",
        {"reg__entropy_sampled": [2.6] * 8 + [4.0, 6.0, 7.0, 8.0], "reg__entropy": 1.2},
        0.99, ("reaches 8.00 nats", "exact entropy is 1.20", "at most 5.384"), _EXACT,
        ("reg/entropy_sampled", "reg/entropy", "reg/entropy_weighted"),
    ),
    "surrogate above the entropy": Signature(
        "sampled_entropy_bonus", {"reg__entropy_sampled": 2.0, "reg__entropy": 1.6},
        0.95, ("reaches 2.00 nats", "exact entropy is 1.60"), _EXACT,
        ("reg/entropy_sampled", "reg/entropy", "reg/entropy_weighted"),
    ),
    "saturated": Signature(
        "saturated_controller", {"reg__controller_saturated": 1.0, "reg__kl_old_coef": 50.0},
        0.9, ("in 100% of the last quarter", "kl_old_coef 50", "50% of its start"),
        "--regularizer.kl-controller none --regularizer.ent-controller none",
        ("reg/controller_saturated",),
    ),
    "only mate is rewarded": Signature(
        "no_signal", {"rollout__reward_zero_std_fraction": 0.95},
        0.97, ("95% of the groups", "nearly all moves", "2.60 nats"), "--env.reward win_prob_delta",
        ("rollout/reward_zero_std_fraction",),
    ),
    "too sure": Signature(
        "no_signal",
        {"rollout__reward_zero_std_fraction": 0.5, "rollout__distinct_moves_mean": 1.5},
        0.85, ("50% of the groups", "1.5 different moves"), "--rollout.temperature 4",
        ("rollout/reward_zero_std_fraction",),
    ),
    "squashed": Signature(
        "no_signal", {"rollout__reward_zero_std_fraction": 0.3, "rollout__blind_fraction": 0.4},
        0.75, ("30% of the groups", "40% of the pairs"), "--env.reward win_prob_delta",
        ("rollout/reward_zero_std_fraction",),
    ),
    "the same starts": Signature(
        "fixed_positions", {"rollout__repeated_fraction": [0.0] * 9 + [0.8] * 3},
        0.9, ("80% of the positions", "2.60 nats, on held-out ones 2.60", "50% of its start", "+0.10"),
        "--env.start-positions random_plies:2-40", ("rollout/repeated_fraction",),
    ),
    "a bonus too large": Signature(
        "loss_budget",
        {"eval__entropy_normalized": 0.99, "grad_share__entropy": 0.8, "regret_cp": (300.0, 285.0),
         "reg__ent_coef": 3.0},
        0.95, ("80% of the gradient norm", "99.0% of the largest", "95% of its start"),
        "--regularizer.ent-coef 0.3",
        ("eval/entropy_normalized", "grad_share/entropy", "eval/regret_cp",
         "rollout/reward_zero_std_fraction"),
    ),
    "an anchor too heavy": Signature(
        "loss_budget",
        {"policy__kl_ref": 0.01, "grad_share__kl_ref": 0.6, "regret_cp": (300.0, 294.0),
         "reg__kl_ref_coef": 5.0},
        0.85, ("60% of the gradient norm", "0.01 nats from it", "98% of its start"),
        "--regularizer.kl-ref-coef 0.5",
        ("policy/kl_ref", "grad_share/kl_ref", "eval/regret_cp", "rollout/reward_zero_std_fraction"),
    ),
    "sharp": Signature(
        "sharp_optimum",
        {"probe__optimum_entropy": 0.1, "reg__kl_ref_coef": 0.001, "entropy": (2.8, 0.7)},
        0.9, ("has 0.10 nats", "2.50"), "--regularizer.kl-ref-coef 0.1", ("probe/optimum_entropy",),
    ),
    "tight upper clip": Signature(
        "clip_asymmetry", {"clip__up_p_01_10": 0.4, "clip__up_p_10_50": 0.3},
        0.9, ("stops 40% (p from .01 to .1) and 30%", "stops 10% and 5%"),
        "--algorithm.clip-range-high 0.28",
        ("clip/up_p_01_10", "clip/up_p_10_50", "clip/down_p_01_10", "clip/down_p_10_50"),
    ),
    "eight passes": Signature(
        "update_epochs", {"train__passes": 8.0, "ratio__ess": 0.2, "policy__approx_kl": 0.5},
        0.9, ("8 times over its batch", "0.5 nats", "20.0% of the samples"),
        "--algorithm.update-epochs 1",
        ("train/passes", "ratio/ess", "ratio/std_first_minibatch"),
    ),
    "large steps": Signature(
        "weak_entropy_high_lr",
        {"policy__approx_kl": 0.1, "grad_share__entropy": 0.01, "reg__ent_coef": 0.01,
         "entropy": (2.8, 0.7), "regret_cp": (300.0, 225.0), "train__learning_rate": 4e-3},
        0.8, ("moves the policy by 0.1 nats", "has 1.0% of", "75% of the held-out entropy went for 25%"),
        "--optimizer.learning-rate 0.001 --regularizer.ent-coef 0.1",
        ("train/passes", "policy/approx_kl", "eval/entropy", "ratio/std_first_minibatch"),
    ),
}  # fmt: skip
"""Case -> signature: every class at least once."""
