"""CE-GPPO: PPO's clip with a bounded gradient where the clip has none."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, Credit, group_advantages
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, Group, NotNegative, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import sample_mean


def gradient_preserving_clip(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
    beta_low: float,
    beta_high: float,
) -> Tensor:
    """`[N, K]` loss to minimise: -r A, but -beta (bound) (r / sg(r)) A where PPO's clip has no gradient.

    r = exp(logprobs - old_logprobs). The bound is 1 - clip_low for A < 0 and r below it (`beta_low`), and
    1 + clip_high for A > 0 and r above it (`beta_high`). So the weight of a clipped sample's gradient is beta times
    the bound, however far r has gone. With beta 0 the gradient is that of `core.losses.clipped_ratio`. No gradient
    flows into `old_logprobs` or `advantages`.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        advantages: `[N, K]`.
        clip_low: in (0, 1]; distance of the lower bound from 1.
        clip_high: > 0; distance of the upper bound from 1; infinity clips nothing above.
        beta_low: >= 0; share of the gradient at the lower bound that is kept.
        beta_high: >= 0; share of the gradient at the upper bound that is kept.
    """
    advantages = advantages.detach()
    ratio = (logprobs - old_logprobs.detach()).exp()
    one = (logprobs - logprobs.detach()).exp()  # r / sg(r), also where r rounds to 0
    below = (advantages < 0) & (ratio < 1.0 - clip_low)
    above = (advantages > 0) & (ratio > 1.0 + clip_high)
    kept = torch.where(below, beta_low * (1.0 - clip_low) * one, ratio)
    if math.isfinite(clip_high):  # nothing is above infinity, and 0 times it is no number
        kept = torch.where(above, beta_high * (1.0 + clip_high) * one, kept)
    return -kept * advantages


@dataclasses.dataclass(frozen=True)
class CEGPPO:
    """CE-GPPO (arXiv:2509.20712; read in the authors' code): what PPO's clip throws away, in bounded doses.

    Most clipped moves are rare. Good ones that rise broaden the policy (`beta_high`), bad ones that fall narrow it
    (`beta_low`).

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: ratios below 1 - clip_range (A < 0) are clipped, and above 1 + clip_range (A > 0).
        clip_range_high: the upper distance if not `clip_range`; larger slows the loss of entropy.
        beta_low: share of its gradient at the bound that a clipped move with A < 0 keeps; 0 is PPO.
        beta_high: the same for a clipped move with A > 0; larger slows the loss of entropy.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "ce_gppo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None
    beta_low: NotNegative = 0.75
    beta_high: NotNegative = 1.0
    advantage_scale: AdvantageScale = "none"
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """Nothing beyond sampled moves and rewards."""
        return Needs(group_scale=self.advantage_scale)

    def controls(self) -> Controls:
        """The clip bounds as configured."""
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean, scaled; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` loss to minimise, with a bounded gradient beyond the clip."""
        settings = controls.clip_low, controls.clip_high, self.beta_low, self.beta_high
        logprobs, old = dist.gather(batch.slots), batch.old_logprobs
        return PolicyLoss(gradient_preserving_clip(logprobs, old, advantages, *settings))
