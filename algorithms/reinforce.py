"""REINFORCE: the score function with a choice of baselines; no ratio, no clip."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Tensor

from algorithms.core.advantages import (
    Baseline,
    Credit,
    baselined,
    credited,
)
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import Epochs, Sample, Share, check_fields, require
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import sample_mean, score_function


@dataclasses.dataclass(frozen=True)
class Reinforce:
    """REINFORCE (Williams 1992, doi:10.1007/BF00992696) with a baseline.

    It does not correct for stale samples: several optimizer steps on one batch bias it, which RLOO
    refuses and this class allows, to compare.

    Attributes:
        group_size: samples per position (or start), >= 1, >= 2 for the baseline `group`.
        update_epochs: passes over each batch; every step after the first is off-policy.
        baseline: subtract nothing, the mean over the `batch`, or over the `group`.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "reinforce"
    group_size: Sample = 8
    update_epochs: Epochs = 1
    baseline: Baseline = "batch"
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            self.group_size > 1 or self.baseline != "group",
            f"group_size is {self.group_size} and baseline 'group': a baseline within the group needs 2 samples; "
            "set group_size >= 2",
        )

    def needs(self) -> Needs:
        """Nothing beyond sampled moves and rewards."""
        return Needs()

    def controls(self) -> Controls:
        """No bounds."""
        return Controls()

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus the baseline; shaped like `batch.rewards`."""
        rewards = credited(batch, self.credit, self.gamma)
        return baselined(rewards, batch.valid, batch.group_axis, self.baseline)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` score-function loss to minimise."""
        return PolicyLoss(score_function(dist.gather(batch.slots), advantages))
