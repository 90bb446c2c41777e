"""RLOO: leave-one-out advantages with the score function, strictly on-policy."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Tensor

from algorithms.core.advantages import Credit, credited, leave_one_out
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import Epochs, Group, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import sample_mean, score_function


@dataclasses.dataclass(frozen=True)
class RLOO:
    """REINFORCE Leave-One-Out (arXiv:2402.14740): no ratio and no clip, hence one step per batch.

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: 1, because its estimator is unbiased only for samples of the current policy.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "rloo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.update_epochs != 1:
            raise ValueError(
                f"update_epochs is {self.update_epochs}: RLOO is strictly on-policy and has no ratio "
                "to correct for reused samples; set update_epochs to 1, or train grpo or cispo"
            )

    def needs(self) -> Needs:
        """One optimizer step for each batch."""
        return Needs(single_step=True, group_scale="none")

    def controls(self) -> Controls:
        """No bounds."""
        return Controls()

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus the mean of the group's others; shaped like `batch.rewards`."""
        rewards = credited(batch, self.credit, self.gamma)
        return leave_one_out(rewards, batch.valid, batch.group_axis)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` score-function loss to minimise."""
        return PolicyLoss(score_function(dist.gather(batch.slots), advantages))
