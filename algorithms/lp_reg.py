"""Lp-Reg: GRPO that holds its least likely bad moves near a filtered copy of the old policy."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import Credit, group_advantages
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import (
    AboveZero,
    Epochs,
    Group,
    NotNegative,
    OpenShare,
    Share,
    check_fields,
)
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, ranks, sample_mean

LARGEST_KL = 10.0
"""A sample's KL counts for no more, and has no gradient beyond: that of a move 13 times as likely in the proxy."""


@torch.no_grad()
def proxy(legal_logprobs: Tensor, min_p: float) -> Tensor:
    """`[N, L]` log-probabilities without the moves below min_p x the likeliest one's, renormalised; -inf for those."""
    least = legal_logprobs.amax(-1, keepdim=True) + math.log(min_p)
    kept = legal_logprobs.masked_fill(legal_logprobs < least, -torch.inf)
    return kept - kept.logsumexp(-1, keepdim=True)


@torch.no_grad()
def protected(
    logprobs: Tensor, proxy_logprobs: Tensor, advantages: Tensor, valid: Tensor, fraction: float
) -> Tensor:
    """Bool `[N, K]`: of the n valid samples with A < 0, the floor(fraction n) least likely, where pi < proxy.

    At least one of them is looked at, unless the fraction is 0. A move that the proxy has dropped is never protected.

    Args:
        logprobs: `[N, K]` log-probabilities of the current learner, nats.
        proxy_logprobs: `[N, K]` those of the proxy.
        advantages: `[N, K]`.
        valid: bool `[N, K]`; what other samples hold, NaN included, is never looked at.
        fraction: share of the samples with A < 0, in [0, 1].
    """
    negative = valid & (advantages < 0)
    number = (fraction * negative.sum().double()).floor().clamp(min=1.0 if fraction > 0 else 0.0)
    rank = ranks(torch.where(negative, logprobs, torch.inf))
    return negative & (rank < number) & (logprobs < proxy_logprobs)


def lp_reg(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    proxy_logprobs: Tensor,
    chosen: Tensor,
    coef: float,
    clip_low: float,
    clip_high: float,
) -> Tensor:
    """`[N, K]` loss to minimise: -r A + coef min(k3, 10) where chosen, `clipped_ratio` elsewhere.

    k3 = exp(d) - 1 - d with d = log proxy - log pi: of the chosen samples, which are below the proxy, it raises the
    probability. Lp-Reg (arXiv:2510.03222, *Low-probability Tokens Sustain Exploration in Reinforcement Learning with
    Verifiable Reward*; read in the authors' code, CarlanLark/Lp-Reg-dev).

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        advantages: `[N, K]`.
        proxy_logprobs: `[N, K]` those of the proxy; not looked at where not chosen.
        chosen: bool `[N, K]`, True where the sample is protected.
        coef: weight of k3, >= 0, units of the advantages per nat.
        clip_low: in (0, 1]; distance of the lower bound from 1.
        clip_high: > 0; distance of the upper bound from 1.
    """
    gap = torch.where(chosen, proxy_logprobs.detach() - logprobs, 0.0).clamp(max=2 * LARGEST_KL)
    kl = (torch.expm1(gap) - gap).clamp(max=LARGEST_KL)
    free = coef * kl - (logprobs - old_logprobs.detach()).exp() * advantages.detach()
    bounded = clipped_ratio(logprobs, old_logprobs, advantages, clip_low, clip_high)
    return torch.where(chosen, free, bounded)


@dataclasses.dataclass(frozen=True)
class LpReg:
    """Low-probability regularisation (arXiv:2510.03222): spares the unlikely bad moves that are more than noise.

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range_high (A > 0) get no gradient.
        clip_range_high: the upper distance; 1 and 9 are the authors', which cut next to nothing.
        lp_coef: weight of the KL to the proxy on the protected samples, >= 0.
        lp_fraction: share of the samples with A < 0 that may be protected, the least likely; 0: none.
        min_p: the proxy drops moves below this share of the likeliest one's probability, in (0, 1].
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "lp_reg"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_range: ClipRange = 1.0
    clip_range_high: AboveZero = 9.0
    lp_coef: NotNegative = 1.0
    lp_fraction: Share = 0.01
    min_p: OpenShare = 0.02
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """Nothing beyond sampled moves and rewards."""
        return Needs(group_scale="none")

    def controls(self) -> Controls:
        """The clip bounds as configured."""
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, "none")

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise, with the KL to the proxy on the protected samples."""
        logprobs, old = dist.gather(batch.slots), batch.old_logprobs
        near = proxy(batch.old_legal_logprobs, self.min_p).gather(-1, batch.slots)
        chosen = protected(logprobs, near, advantages, batch.valid, self.lp_fraction)
        bounds = controls.clip_low, controls.clip_high
        return PolicyLoss(lp_reg(logprobs, old, advantages, near, chosen, self.lp_coef, *bounds))
