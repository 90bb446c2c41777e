"""DPPO: a trust region in probability: a move is let go once its probability has moved far enough."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, Credit, group_advantages
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, Group, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import sample_mean, score_function

Divergence = Literal["tv", "kl"]
THRESHOLDS: dict[Divergence, float] = {"tv": 0.2, "kl": 0.05}
"""What a divergence may reach by default: prime-rl's for `tv`, that of verl's script for `kl`."""

_ROUNDED = 1e-8
"""Added to the probability of any other move, as the authors do: it may have been rounded to 0."""


@torch.no_grad()
def divergence_gate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    valid: Tensor,
    divergence: Divergence,
    low: float,
    high: float,
) -> Tensor:
    """`[N, K]` of 0 and 1: 0 for A > 0 and pi > mu, or A < 0 and pi < mu, beyond the threshold; 0 where not valid.

    Each move is seen as a coin (this move or any other), with pi now and mu when it was sampled. `tv` is the total
    variation |pi - mu|, `kl` is KL(mu || pi) of the two coins. A sample with A = 0 passes: it has no gradient.

    Args:
        logprobs: `[N, K]` log pi, nats.
        old_logprobs: `[N, K]` log mu, nats.
        advantages: `[N, K]`.
        valid: bool `[N, K]`; what other samples hold, NaN included, is never looked at.
        divergence: `tv` or `kl`.
        low: threshold of samples with A < 0, in the unit of the divergence (`kl`: nats).
        high: threshold of samples with A > 0.
    """
    log_pi, log_mu = (torch.where(valid, each, 0.0).double() for each in (logprobs, old_logprobs))
    pi, mu = log_pi.exp(), log_mu.exp()
    apart = (pi - mu).abs()
    if divergence == "kl":
        apart = (
            mu * (log_mu - log_pi) + (1 - mu) * ((1 - mu + _ROUNDED) / (1 - pi + _ROUNDED)).log()
        )
    rose = (advantages > 0) & (pi > mu) & (apart > high)
    fell = (advantages < 0) & (pi < mu) & (apart > low)
    return (valid & ~rose & ~fell).to(logprobs.dtype)


@dataclasses.dataclass(frozen=True)
class DPPO:
    """Divergence PPO (arXiv:2602.04879; read in the authors' code Stable-RL and in verl's), on single moves.

    Its ratio is against the policy that sampled: no sampler correction (TIS, IcePop) belongs on top of it.

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the policy move further.
        divergence: `tv`, how far the move's probability has moved, or `kl`, KL(mu || pi) of it in nats.
        divergence_low: no gradient once a move with A < 0 has fallen so far; None is .2 (`tv`) or .05 (`kl`).
        divergence_high: the same for a move with A > 0 that has risen; None repeats the lower one.
        ratio_cap: the importance weight is at most this; infinity sets no bound.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "dppo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    divergence: Divergence = "tv"
    divergence_low: AboveZero | None = None
    divergence_high: AboveZero | None = None
    ratio_cap: AboveZero = 20.0
    advantage_scale: AdvantageScale = "none"
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """No correction of the sampler beside its own."""
        return Needs(corrects_sampler=True, group_scale=self.advantage_scale)

    def controls(self) -> Controls:
        """No bounds on the ratio: the gate is the trust region."""
        return Controls()

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean, scaled; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` weighted score-function loss to minimise, without the samples that have left the trust region."""
        low = THRESHOLDS[self.divergence] if self.divergence_low is None else self.divergence_low
        high = low if self.divergence_high is None else self.divergence_high
        logprobs, old = dist.gather(batch.slots), batch.old_logprobs
        kind, valid = self.divergence, batch.valid
        gate = divergence_gate(logprobs, old, advantages, valid, kind, low, high)
        weight = (logprobs - old).detach().exp().clamp(max=self.ratio_cap)
        return PolicyLoss(gate * score_function(logprobs, weight * advantages), gate)
