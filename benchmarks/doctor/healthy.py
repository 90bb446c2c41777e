"""Runs without a fault, that the doctor should call healthy: every algorithm, networks, rates, rewards and more.

Written down before the doctor was judged on any of them. `warm` runs start from a policy that is a little better
than chance, as the runs of the causes do; the others start from random weights, as `chess-lab train` does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from algorithms.collapse.cause import applied, baseline
from algorithms.config.run import TrainConfig
from algorithms.presets import PRESETS

Settings = Mapping[str, Any]
_RATE, _BONUS, _REWARD = "optimizer.learning_rate", "regularizer.ent_coef", "env.reward"
_STARTS = "env.start_positions"


@dataclasses.dataclass(frozen=True)
class Healthy:
    """A run without a fault.

    Attributes:
        name: of the cell.
        preset: whose algorithm it is.
        warm: network from whose warm policy it starts; None: `chess-lab train PRESET` in 65,536 moves.
        settings: what differs.
    """

    name: str
    preset: str
    warm: str | None
    settings: Settings

    def config(self) -> TrainConfig:
        """The run's settings, at any seed."""
        if self.warm is not None:
            return applied(baseline(self.warm), self.settings)
        algorithm, regularizer = PRESETS[self.preset]
        config = TrainConfig(algorithm, regularizer, preset=self.preset, total_moves=65_536)
        common = {
            "env.evaluator": "builtin",
            "eval_interval_updates": 5,
            "diagnostics_interval_updates": 5,
            "checkpoint_interval_updates": 1000,
        }
        return applied(config, {**common, **self.settings})


def _warm(network: str, changes: Mapping[str, Settings]) -> list[Healthy]:
    return [
        Healthy(f"{network}-{name}", "grpo", network, settings)
        for name, settings in changes.items()
    ]


def _cold(changes: Mapping[str, Settings], preset: str = "grpo") -> list[Healthy]:
    return [
        Healthy(f"{preset}-{name}", preset, None, settings) for name, settings in changes.items()
    ]


ON_RESNET: dict[str, Settings] = {
    "half_rate": {_RATE: 2.5e-4},
    "double_rate": {_RATE: 1e-3},
    "bonus_01": {_BONUS: 0.1},
    "bonus_005": {_BONUS: 0.05},
    "groups_of_4": {"algorithm.group_size": 4},
    "groups_of_16": {"algorithm.group_size": 16},
    "kl_ref": {"regularizer.kl_ref_coef": 0.01},
    "kl_old": {"regularizer.kl_old_coef": 0.1},
    "kl_resting_low": {
        "regularizer.kl_old_coef": 0.1, "regularizer.kl_controller": "doubling",
        "regularizer.kl_target": 0.05,
    },
    "kl_small_bound": {
        "regularizer.kl_old_coef": 0.1, "regularizer.kl_controller": "doubling",
        "regularizer.kl_target": 0.003, "regularizer.kl_coef_max": 0.2,
    },
    "two_passes_clipped": {"algorithm.update_epochs": 2},
    "small_minibatches": {"optimizer.minibatch_size": 64},
    "openings": {_STARTS: "openings"},
    "phase_mix": {_STARTS: "phase_mix"},
    "cp_delta": {_REWARD: "cp_delta"},
    "games": {"rollout.form": "games", "rollout.num_envs": 8, "rollout.num_plies": 16},
    "entropy_target": {
        "regularizer.ent_controller": "target", "regularizer.ent_target": 0.5,
    },
    "hot": {"rollout.temperature": 1.2},
    "dr_grpo": {"preset": "dr_grpo", _BONUS: 0.03},
    "dapo": {"preset": "dapo", _BONUS: 0.2},
}  # fmt: skip

ON_MOVE_NET: dict[str, Settings] = {
    "as_it_is": {},
    "double_rate": {_RATE: 2e-3},
    "bonus_05": {_BONUS: 0.05},
    "groups_of_4": {"algorithm.group_size": 4},
    "groups_of_32": {"algorithm.group_size": 32},
    "two_passes_clipped": {"algorithm.update_epochs": 2},
    "kl_resting_low": {
        "regularizer.kl_old_coef": 0.1, "regularizer.kl_controller": "ziegler",
        "regularizer.kl_target": 0.05,
    },
    "openings": {_STARTS: "openings"},
    "rloo": {"preset": "rloo", _BONUS: 0.03},
    "delightful_pg": {"preset": "delightful_pg", _BONUS: 0.01},
    "reinforce": {"preset": "reinforce", _BONUS: 0.03},
    "cispo": {"preset": "cispo", _BONUS: 0.03},
}  # fmt: skip

FROM_RANDOM: dict[str, Settings] = {
    "as_it_is": {},
    "resnet": {"policy.network": "resnet"},
    "resnet_small": {"policy.network": "resnet", "policy.size": "small"},
    "transformer": {"policy.network": "transformer", "policy.size": "tiny"},
    "move_net_tiny": {"policy.size": "tiny"},
    "move_net_large": {"policy.size": "large"},
    "high_rate": {_RATE: 1e-2},
    "low_rate": {_RATE: 1e-3},
    "bonus_01": {_BONUS: 0.1},
    "bonus_05": {_BONUS: 0.5},
    "groups_of_4": {"algorithm.group_size": 4},
    "groups_of_16": {"algorithm.group_size": 16},
    "phase_mix": {_STARTS: "phase_mix"},
    "initial": {_STARTS: "openings", "env.max_plies": 16},
    "cp_delta": {_REWARD: "cp_delta"},
    "kl_ref": {"regularizer.kl_ref_coef": 0.01},
    "two_passes_clipped": {"algorithm.update_epochs": 2},
    "games": {"rollout.form": "games", "rollout.num_envs": 8, "rollout.num_plies": 16},
    "stockfish": {"env.evaluator": "stockfish:depth=1", "total_moves": 32_768},
    "openings": {_STARTS: "openings"},
}  # fmt: skip

OTHERS = (
    "reinforce", "ppo", "ppo_one_ply", "dr_grpo", "dapo", "cispo", "rloo", "delightful_pg",
    "clip_cov", "kl_cov", "repo", "exact",
)  # fmt: skip

HEALTHY: list[Healthy] = [
    *_warm("resnet", ON_RESNET),
    *_warm("move_net", ON_MOVE_NET),
    *_cold(FROM_RANDOM),
    *(run for preset in OTHERS for run in _cold({"as_it_is": {}}, preset)),
]
"""64 runs."""
