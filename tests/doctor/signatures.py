"""What each cause looks like in a record, and what its rule must make of it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from algorithms.doctor import sample_rules, update_rules
from tests.doctor.rows import RESIDUAL, SLOPE, UPDATES, Rows, record


@dataclasses.dataclass(frozen=True)
class Signature:
    """A cause in a record that is healthy otherwise.

    Attributes:
        name: of the doctor.
        changes: arguments of `record`.
        size: of the effect, by hand, in units of the least that did harm.
        says: what must stand in the evidence.
        confirm: how the command that it names must end.
        since: the update at which it begins.
        outcome_decides: the record is healthy but for its outcome: the cause does harm only with it.
    """

    name: str
    changes: dict[str, Any]
    size: float
    says: tuple[str, ...]
    confirm: str
    since: int = 1
    outcome_decides: bool = False

    @property
    def rows(self) -> Rows:
        return record(**self.changes)

    @property
    def is_harmful(self) -> bool:
        return self.size >= 1


def from_update(update: int, value: float, before: float) -> list[float]:
    """`before` up to an update, and `value` from it on."""
    return [before] * (update - 1) + [value] * (UPDATES - update + 1)


def samples(slope: Any, residual: Any) -> dict[str, Any]:
    """The learner's log-odds against the sampler's, at every update and at the first look."""
    several = max(len(each) for each in (slope, residual, [0]) if isinstance(each, list))
    slopes, residuals = (
        each if isinstance(each, list) else [each] * several for each in (slope, residual)
    )
    kept = [
        0.6 if abs(s - 1) > 0.06 or r > 0.1 else 1.0 for s, r in zip(slopes, residuals, strict=True)
    ]
    return {
        SLOPE: slope, RESIDUAL: residual, "step0/log_odds_slope": slopes[0],
        "step0/log_odds_residual": residuals[0], "signal/ratio": kept if several > 1 else kept[0],
    }  # fmt: skip


_SYNCED = [0.0, 0.2, 0.4, 0.6] * 4
_PASSES = "--precision.head-dtype float32 --policy.dropout 0"
_LOST: dict[str, Any] = {"entropy": (2.8, 0.7), "regret_cp": (300.0, 290.0), "normalized": 0.2}
_SCATTER, _TIED = sample_rules.HARMFUL_RESIDUAL, sample_rules.HARMFUL_TIED
_SLOPE, _STALE = sample_rules.HARMFUL_LOG_SLOPE, sample_rules.HARMFUL_STALENESS
_OVERPAID = update_rules.HARMFUL_OVERPAID
_OUTWEIGHED: dict[str, Any] = {
    "signal/objective": [0.2, 0.3] * 8,
    "signal/credit": 1.0,
    "signal/draw": 0.8,
}

SIGNATURES = {
    "temperature": Signature(
        "temperature_mismatch", samples(1.3, 1e-7), math.log(1.3) / _SLOPE,
        ("1.3000 times the sampler's", "from the first update on", "a factor of 1"), "--like RUN",
    ),
    "a colder learner": Signature(
        "temperature_mismatch", samples(0.8, 1e-3), math.log(1 / 0.8) / _SLOPE, ("0.8000",), "RUN",
    ),
    "temperature, late": Signature(
        "temperature_mismatch", samples(from_update(9, 1.3, 1.0), 1e-7), math.log(1.3) / _SLOPE,
        ("from update 9 on",), "--like RUN", since=9,
    ),
    "other weights": Signature(
        "forward_mismatch", samples(0.9, 0.36), 0.36 / _SCATTER, ("by 0.36 nats", "another engine"),
        _PASSES,
    ),
    "other weights, late": Signature(
        "forward_mismatch", samples(from_update(9, 0.9, 1.0), from_update(9, 0.36, 1e-7)),
        0.36 / _SCATTER, ("by 0.36 nats", "from update 9 on"), _PASSES, since=9,
    ),
    "dropout": Signature(
        "forward_mismatch", samples(0.95, 0.27) | {"step0/repeat_error": 0.9}, 0.27 / _SCATTER,
        ("differ by up to 0.9", "drawn at random"), _PASSES,
    ),
    "rounding": Signature(
        "forward_mismatch", samples(1.0, 5e-4), 5e-4 / _SCATTER, ("by 0.0005 nats", "rounding"),
        _PASSES,
    ),
    "stale": Signature(
        "stale_behaviour", samples(1.0, _SYNCED), 4 * 1.2 / 15 / _STALE,
        ("12 of 16 updates", "0.4 nats (median)"), "--rollout.sync-interval-updates 1", since=2,
    ),
    "a surrogate above the entropy": Signature(
        "sampled_entropy_bonus",
        {"sampled": [3.0] * 8 + [5.0] * 7 + [8.0], "reg/entropy": 1.25, "reg/ent_coef": 0.2},
        0.2 * 6.75 / _OVERPAID, ("rewards 8.00 nats at update 16", "entropy is 1.25", "at most 5.384"),
        "--regularizer.ent-estimator exact --regularizer.ent-coef 0.1 --regularizer.ent-coef-final 0.1",
    ),
    "a controller at its bound": Signature(
        "saturated_controller",
        {"reg/controller_saturated": from_update(5, 1.0, 0.0), "reg/kl_old_weighted": 0.9,
         "reg/kl_old_coef": [0.1, 1.0, 10.0, 25.0] + [50.0] * 12},
        0.9 / update_rules.HARMFUL_HOLD, ("reg/kl_old_coef", "bound 50", "90%"),
        "--regularizer.kl-controller none --regularizer.ent-controller none", since=5,
    ),
    "only mate is rewarded": Signature(
        "no_signal",
        {"rollout/reward_zero_std_fraction": 0.95, "rollout/single_move_fraction": 0.05},
        0.9 / _TIED, ("90% of the groups", "nearly all moves"), "--env.reward win_prob_delta",
    ),
    "a policy too sure": Signature(
        "no_signal",
        {"rollout/reward_zero_std_fraction": 0.5, "rollout/single_move_fraction": 0.48,
         "rollout/distinct_moves_mean": 1.5},
        0.48 / sample_rules.HARMFUL_SINGLE, ("48% of the groups", "1.5 different moves"),
        "--rollout.temperature 4",
    ),
    "a squashed reward": Signature(
        "no_signal",
        {"rollout/reward_zero_std_fraction": 0.3, "rollout/single_move_fraction": 0.1,
         "rollout/blind_fraction": 0.4},
        0.2 / _TIED, ("20% of the groups", "40% of the pairs"), "--env.reward win_prob_delta",
    ),
    "the same starts": Signature(
        "fixed_positions", {"rollout/repeated_fraction": [0.0] + [0.8] * 15, "entropy": (2.8, 2.5)},
        1.0, ("80% of the positions",), "--env.start-positions random_plies:2-40", since=2,
    ),
    "a bonus too large": Signature(
        "loss_budget",
        {"normalized": 0.8, "grad_share/entropy": 0.5, "reg/ent_coef": 3.0, "entropy": (2.8, 2.8), **_OUTWEIGHED},
        2.0, ("keeps 0.25", "reg/ent_coef has 50%"), "--regularizer.ent-coef 0.1 --regularizer.ent-coef-final 0.1",
    ),
    "an anchor too heavy": Signature(
        "loss_budget",
        {"policy/kl_ref": 0.01, "grad_share/kl_ref": 0.6, "regret_cp": (300.0, 294.0),
         "normalized": 0.5, "reg/kl_ref_coef": 5.0, **_OUTWEIGHED},
        2.0, ("reg/kl_ref_coef has 60%",), "--regularizer.kl-ref-coef 0.05",
    ),
    "a sharp optimum": Signature(
        "sharp_optimum", {"probe/optimum_entropy": 0.1, "reg/kl_ref_coef": 0.001, "grad_share/kl_ref": 0.05, **_LOST},
        update_rules.HARMFUL_OPTIMUM_NATS / 0.1, ("has 0.10 nats", "2.50"),
        "--regularizer.kl-ref-coef 0.1", outcome_decides=True,
    ),
    "a tight upper clip": Signature(
        "clip_asymmetry",
        {"policy/clip_fraction_high": 0.2, "clip/up_p_01_10": 0.4, "clip/up_p_10_50": 0.3},
        0.2 / update_rules.HARMFUL_STOPPED, ("20.0% of the samples above", "4.0% below", "35%"),
        "--algorithm.clip-range-high 0.28 --regularizer.ent-coef 0.1 --regularizer.ent-coef-final 0.1",
    ),
    "eight passes": Signature(
        "update_epochs",
        {"train/passes": 8.0, "ratio/ess": 0.2, "policy/approx_kl": 0.5, **_LOST},
        0.8 / (1 - update_rules.HARMFUL_ESS), ("8 times over its batch", "0.5 nats", "20% of the samples"),
        "--algorithm.update-epochs 1", outcome_decides=True,
    ),
    "large steps": Signature(
        "weak_entropy_high_lr",
        {"policy/approx_kl": 0.105, "grad_share/entropy": 0.01, "reg/ent_coef": 0.01,
         "train/learning_rate": 4e-3, "entropy": (2.8, 0.7), "regret_cp": (300.0, 225.0),
         "normalized": 0.2},
        0.105 / update_rules.HARMFUL_DRIFT, ("policy by 0.1 nats", "has 1.0% of", "2.80 to 0.70"),
        "--optimizer.learning-rate 0.0005 --regularizer.ent-coef 0.1", outcome_decides=True,
    ),
}  # fmt: skip
"""Case -> signature: every class of causes at least once."""

HARMFUL = [case for case, signature in SIGNATURES.items() if signature.is_harmful]
