"""The networks that the causes are run on, and the settings and bounds of each.

A cause is the same on every network: the same switch, the same readings, the same sides of the bounds. What
stands here is where its runs start, how fast they learn, and a bound where another start or another speed
makes another number necessary. What is said of move_net was chosen in runs on seeds 101 and 102.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

Settings = Mapping[str, Any]
"""Dotted names of a run's settings and their values; "preset" brings its algorithm along."""


class Bound(NamedTuple):
    """The bound of a reading, and its least distance from the twin's."""

    bound: float
    margin: float


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Settings and bounds of the runs on a network.

    Attributes:
        settings: of all runs; the rest is the same on every network.
        changed: cause -> "shared", "settings" or "cured" -> what it has there in place of its own.
        bounds: cause -> reading -> the bound in place of the cause's own.
    """

    settings: Settings
    changed: Mapping[str, Mapping[str, Settings]] = dataclasses.field(default_factory=dict)
    bounds: Mapping[str, Mapping[str, Bound]] = dataclasses.field(default_factory=dict)


REGRET, PASS, ENTROPY = "last eval/regret_cp", "last eval/pass_at_8", "last eval/entropy"

FIRST = "resnet"
"""The network that the causes were written down for; its bounds stand at the causes."""

ARCHITECTURES: dict[str, Architecture] = {
    "resnet": Architecture(
        settings={
            "policy.network": "resnet", "init_from": "warm", "optimizer.learning_rate": 5e-4,
        },
    ),
    "move_net": Architecture(
        settings={
            "policy.network": "move_net", "init_from": "warm_move_net",
            "optimizer.learning_rate": 1e-3,
        },
        changed={
            # Eight times the rate, as on resnet.
            "weak_entropy_high_lr": {"settings": {"optimizer.learning_rate": 8e-3}},
            # With .35 the KL to the old policy stays near .07 nats: the excursion does not come.
            "sampled_entropy_bonus": {"settings": {"regularizer.ent_coef": 0.7}},
            "kl_trap": {"settings": {"regularizer.ent_coef": 0.7}},
            # An update moves it by .003 nats: a target of .01 sends the coefficient to 0.
            "saturated_controller": {"cured": {"regularizer.kl_target": 0.002}},
        },
        bounds={
            "dropout_in_rollout": {REGRET: Bound(120.0, 20.0)},
            "forward_mismatch": {REGRET: Bound(150.0, 15.0)},
            "stale_behaviour": {REGRET: Bound(150.0, 25.0)},
            "update_epochs": {
                "median ratio/ess": Bound(0.6, 0.3), "last eval/entropy": Bound(1.1, 0.3),
            },
            "weak_entropy_high_lr": {PASS: Bound(0.73, 0.06)},
            "sampled_entropy_bonus": {REGRET: Bound(320.0, 20.0), ENTROPY: Bound(0.5, 0.4)},
            "kl_trap": {ENTROPY: Bound(0.5, 0.4)},
            "saturated_controller": {REGRET: Bound(135.0, 25.0)},
            "fixed_positions": {REGRET: Bound(125.0, 25.0), PASS: Bound(0.76, 0.05)},
            "support_limit": {PASS: Bound(0.68, 0.06)},
            "reward_squash": {REGRET: Bound(120.0, 20.0)},
        },
    ),
}  # fmt: skip
"""Network -> settings and bounds of its runs."""
