"""ASPO: a good move's importance weight is inverted, so that rare moves are raised and not held down."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, Credit, group_advantages
from algorithms.core.algorithm import (
    ClipRange,
    Controls,
    DualClip,
    Needs,
    PolicyLoss,
    clip_controls,
)
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, Group, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import cut_by_clip, sample_mean, score_function


def asymmetric_weight(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
) -> Tensor:
    """`[N, K]` loss to minimise: -sg(u) A logprobs, u = min(1 / r, dual_clip) for A > 0, min(r, dual_clip) for A < 0.

    r = exp(logprobs - old_logprobs). u is 0 where PPO's clip is: for A > 0 and r > 1 + clip_high, and for A < 0 and
    r < 1 - clip_low. No gradient flows into the weight, `old_logprobs` or `advantages`. The authors' loss has this
    gradient and, in part, another value.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        advantages: `[N, K]`.
        clip_low: in (0, 1]; distance of the lower bound from 1.
        clip_high: > 0; distance of the upper bound from 1.
        dual_clip: > 1; largest weight, which keeps its gradient; None sets no bound.
    """
    log_ratio = (logprobs - old_logprobs).detach()
    weight = (
        torch.where(advantages > 0, -log_ratio, log_ratio).exp().clamp(max=dual_clip or torch.inf)
    )
    clipped = cut_by_clip(logprobs, old_logprobs, advantages, clip_low, clip_high)
    return score_function(logprobs, torch.where(clipped, 0.0, weight) * advantages)


@dataclasses.dataclass(frozen=True)
class ASPO:
    """Asymmetric Importance Sampling Policy Optimization (arXiv:2510.06062; read in the authors' code Archer2.0).

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range`; larger slows the loss of entropy.
        dual_clip: the weight of a sample is at most this, and keeps its gradient; None sets no bound.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "aspo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None
    dual_clip: DualClip | None = 3.0
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
        """`[N, K]` weighted score-function loss to minimise."""
        bounds = controls.clip_low, controls.clip_high, self.dual_clip
        return PolicyLoss(
            asymmetric_weight(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds)
        )
