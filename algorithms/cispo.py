"""CISPO: group-relative advantages with a clipped importance weight instead of a clipped loss."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Tensor

from algorithms.core.advantages import AdvantageScale, Credit, group_advantages
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, Group, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import cispo, sample_mean


@dataclasses.dataclass(frozen=True)
class CISPO:
    """Clipped importance-sampling policy optimization (arXiv:2506.13585): no sample's gradient is cut.

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: the weight is at least 1 - clip_range; 1 sets no lower bound.
        clip_range_high: the weight is at most 1 + clip_range_high; 4 is TRL's epsilon_high=5.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "cispo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_range: ClipRange = 1.0
    clip_range_high: AboveZero = 4.0
    advantage_scale: AdvantageScale = "none"
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """Nothing beyond sampled moves and rewards."""
        return Needs(group_scale=self.advantage_scale)

    def controls(self) -> Controls:
        """The bounds of the importance weight as configured."""
        return Controls(clip_low=self.clip_range, clip_high=self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean, scaled; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` weighted score-function loss to minimise."""
        bounds = controls.clip_low, controls.clip_high
        return PolicyLoss(cispo(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds))
