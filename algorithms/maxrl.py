"""MaxRL: the group's mean divides the advantages, so that rare successes weigh as in maximum likelihood."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import group_mean, group_relative, require_success
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, Group, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, sample_mean

MEAN_FLOOR = 1e-6
"""Added to the group's mean before dividing (the authors' value)."""


@torch.no_grad()
def mean_relative(rewards: Tensor, valid: Tensor, group_axis: int) -> Tensor:
    """(r - mean) / (mean + 1e-6) within each group, 0 where its mean is not above 0; same shape.

    MaxRL (arXiv:2602.02710; read in the authors' code tajwarfahim/maxrl). With n samples and success
    rate p the expected gradient of their mean is (1 - (1 - p)^(n-1)) / p times that of p: for many
    samples the gradient of log p. Members that are not valid get 0, and so do those of groups with
    fewer than two valid ones.

    Args:
        rewards: float `[...]`, >= 0.
        valid: bool, same shape.
        group_axis: the axis along which members of one group lie.
    """
    mean = group_mean(rewards, valid, group_axis)
    centred = group_relative(rewards, valid, group_axis, "none")
    return torch.where(mean > 0, centred / (mean.clamp(min=0) + MEAN_FLOOR), 0.0)


@dataclasses.dataclass(frozen=True)
class MaxRL:
    """Maximum Likelihood Reinforcement Learning (arXiv:2602.02710): rewards are success or failure.

    Attributes:
        group_size: samples per group, >= 2; more come nearer to the likelihood's gradient.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range`; larger slows the loss of entropy.
    """

    name: ClassVar[str] = "maxrl"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """Rewards of success or failure."""
        return Needs(success_rewards=True, reward_units=False)

    def controls(self) -> Controls:
        """The clip bounds as configured."""
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Rewards minus their group's mean, over the mean; shaped like `batch.rewards`."""
        require_success(batch, self.name)
        return mean_relative(batch.rewards, batch.valid, batch.group_axis)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise."""
        bounds = controls.clip_low, controls.clip_high
        return PolicyLoss(
            clipped_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds)
        )
