"""W-REINFORCE: failures are pushed down fully, successes up a little; without the latter it is NSR."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import require_success
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, NotNegative, Sample, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, sample_mean


@torch.no_grad()
def weighted_outcome(rewards: Tensor, valid: Tensor, positive_weight: float) -> Tensor:
    """`positive_weight` for a success, -1 for a failure, 0 where not valid; same shape.

    W-REINFORCE (arXiv:2506.01347; read in the authors' code TianHongZXY/RLVR-Decomposed), without a
    baseline. Its expected on-policy gradient is 1 + positive_weight times that of the success rate:
    weights differ in their noise, and in what the clip and several steps on a batch make of it.

    Args:
        rewards: float `[...]` of 0 and 1.
        valid: bool, same shape.
        positive_weight: >= 0.
    """
    each = torch.where(rewards > 0, rewards.new_tensor(positive_weight), -1.0)
    return torch.where(valid, each, 0.0)


@dataclasses.dataclass(frozen=True)
class WReinforce:
    """W-REINFORCE, and NSR with `positive_weight=0` (arXiv:2506.01347): rewards are success or failure.

    Attributes:
        group_size: samples per position (or start), >= 1; there is no baseline that needs a group.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        positive_weight: advantage of a success, >= 0; that of a failure is -1. 0 learns from failures alone.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range`; larger slows the loss of entropy.
    """

    name: ClassVar[str] = "w_reinforce"
    group_size: Sample = 8
    update_epochs: Epochs = 1
    positive_weight: NotNegative = 0.1
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """Rewards of success or failure; A = (1 + positive_weight) r - 1 has their unit where the weight is 0."""
        return Needs(success_rewards=True, reward_units=self.positive_weight == 0)

    def controls(self) -> Controls:
        """The clip bounds as configured."""
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """`positive_weight` or -1; shaped like `batch.rewards`."""
        require_success(batch, self.name)
        return weighted_outcome(batch.rewards, batch.valid, self.positive_weight)

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
