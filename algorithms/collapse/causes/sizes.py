"""Each cause at half and at a third of its size, and at one at which the fault does no harm.

The full size is the cause itself. `half` and `third` are that share of the distance between the twin's value and
the cause's, in the unit of the setting: steps between synchronisations, passes, coefficients, standard
deviations. Where the setting is a number of positions or a scale to which less is worse, it is two and three
times as large. `harmless` was chosen so that the run with the fault learns as its twin does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from algorithms.collapse.causes import faults
from algorithms.collapse.causes.faults import Fault

FULL = "full"
SIZE_NAMES = (FULL, "half", "third", "harmless")


class Size(NamedTuple):
    """The settings of a cause at a size, in place of its own.

    Attributes:
        times: setting -> factor on the cause's value, of the run with the fault alone.
        settings: of the run with the fault alone.
        shared: of both runs.
        cured: of the twin alone.
        fault: a change of the run that no setting can make.
        fault_says: the same in words.
    """

    times: Mapping[str, float] = {}
    settings: Mapping[str, Any] = {}
    shared: Mapping[str, Any] = {}
    cured: Mapping[str, Any] = {}
    fault: Fault | None = None
    fault_says: str = ""

    @property
    def has_own_twin(self) -> bool:
        """Whether the twin is another run than that of the full size."""
        return bool(self.shared or self.cured)


def _learner_at(temperature: float) -> Size:
    says = f"the learner's softmax runs at temperature {temperature:g}"
    return Size(fault=faults.learner_temperature(temperature), fault_says=says)


def _noise(std: float) -> Size:
    says = f"fixed noise of standard deviation {std:g} on the sampler's logits"
    return Size(fault=faults.sampler_keeps_noise(std), fault_says=says)


def _squashed(scale_cp: float) -> Size:
    says = f"the reward is the change of tanh(cp / {scale_cp:g})"
    return Size(fault=faults.squashed_reward(scale_cp), fault_says=says)


def _sharp(factor: float) -> Size:
    """Both start sharper by `factor`; the twin's temperature undoes half of it, as at full size."""
    return Size(
        cured={"rollout.temperature": max(1.0, factor / 2)},
        fault=faults.sharpened_start(factor),
        fault_says=f"both start with logits {factor:g} times as large",
    )


_BONUS = "regularizer.ent_coef"
_STARTS = "env.start_positions"

SIZES: dict[str, dict[str, Size]] = {
    "temperature_mismatch": {
        "half": _learner_at(1.15),
        "third": _learner_at(1.2),
        "harmless": _learner_at(1.29),
    },
    "dropout_in_rollout": {
        "half": Size(shared={"policy.dropout": 0.05}),
        "third": Size(shared={"policy.dropout": 0.033}),
        "harmless": Size(shared={"policy.dropout": 0.001}),
    },
    "forward_mismatch": {"half": _noise(0.4), "third": _noise(0.27), "harmless": _noise(0.05)},
    "stale_behaviour": {
        "half": Size(settings={"rollout.sync_interval_updates": 8}),
        "third": Size(settings={"rollout.sync_interval_updates": 5}),
        "harmless": Size(
            settings={"rollout.sync_interval_updates": 2, "optimizer.learning_rate": 1e-4},
            cured={"optimizer.learning_rate": 1e-4},
        ),
    },
    "update_epochs": {
        "half": Size(settings={"algorithm.update_epochs": 4}),
        "third": Size(settings={"algorithm.update_epochs": 3}),
        "harmless": Size(
            settings={"algorithm.update_epochs": 2, "optimizer.learning_rate": 1e-4},
            cured={"optimizer.learning_rate": 1e-4},
        ),
    },
    "weak_entropy_high_lr": {
        "half": Size(times={"optimizer.learning_rate": 1 / 2}),
        "third": Size(times={"optimizer.learning_rate": 1 / 3}),
        "harmless": Size(times={"optimizer.learning_rate": 1 / 6}, settings={_BONUS: 0.15}),
    },
    "clip_asymmetry": {
        "half": Size(settings={"algorithm.clip_range_high": 0.04}),
        "third": Size(settings={"algorithm.clip_range_high": 0.06}),
        "harmless": Size(settings={"algorithm.clip_range_high": 0.2}),
    },
    "sampled_entropy_bonus": {
        "half": Size(times={_BONUS: 1 / 2}),
        "third": Size(times={_BONUS: 1 / 3}),
        "harmless": Size(settings={_BONUS: 0.002}),
    },
    "kl_trap": {
        "half": Size(times={_BONUS: 1 / 2}),
        "third": Size(times={_BONUS: 1 / 3}),
        "harmless": Size(settings={_BONUS: 0.002}),
    },
    "saturated_controller": {
        "half": Size(times={"regularizer.kl_coef_max": 1 / 2}),
        "third": Size(times={"regularizer.kl_coef_max": 1 / 3}),
        "harmless": Size(settings={"regularizer.kl_coef_max": 0.2}),
    },
    "loss_budget": {
        "half": Size(times={_BONUS: 1 / 2}),
        "third": Size(times={_BONUS: 1 / 3}),
        "harmless": Size(settings={_BONUS: 0.25}),
    },
    "sharp_optimum": {
        "half": Size(settings={"regularizer.kl_ref_coef": 0.002}),
        "third": Size(settings={"regularizer.kl_ref_coef": 0.003}),
        "harmless": Size(settings={"regularizer.kl_ref_coef": 0.03}),
    },
    "fixed_positions": {
        "half": Size(settings={_STARTS: "random_plies:2-40@fixed=32"}),
        "third": Size(settings={_STARTS: "random_plies:2-40@fixed=48"}),
        "harmless": Size(settings={_STARTS: "random_plies:2-40@fixed=2048"}),
    },
    "support_limit": {"half": _sharp(4.0), "third": _sharp(2.7), "harmless": _sharp(1.2)},
    "reward_squash": {
        "half": _squashed(40.0),
        "third": _squashed(60.0),
        "harmless": _squashed(400.0),
    },
}
"""Cause -> size -> its settings there. `low_precision` and `zero_variance_groups` have no sizes: the
one is a kind of number, the other a reward."""
