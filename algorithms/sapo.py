"""SAPO: a smooth gate on the ratio in place of PPO's clip."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, Credit, group_advantages
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import Epochs, Group, Positive, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import reduction_weights


def soft_ratio(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    tau_positive: float,
    tau_negative: float,
) -> PolicyLoss:
    """`[N, K]` loss to minimise: -(4 / tau) sigmoid(tau (r - 1)) A; tau is tau_positive for A > 0, else tau_negative.

    r = exp(logprobs - old_logprobs). Its gradient is that of -r A times 4 p (1 - p) with p = sigmoid(tau (r - 1)), the
    gate: all of it at r = 1, and less the further r is from 1 on either side. No gradient flows into `old_logprobs` or
    `advantages`.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        advantages: `[N, K]`.
        tau_positive: > 0; larger closes the gate nearer to r = 1 where A > 0.
        tau_negative: > 0; the same where A <= 0.
    """
    advantages = advantages.detach()
    ratio = (logprobs - old_logprobs.detach()).exp()
    # Not where(A > 0, number, number), which has the default precision whatever that of A.
    tau = torch.full_like(advantages, tau_negative).masked_fill(advantages > 0, tau_positive)
    opened = torch.sigmoid(tau * (ratio - 1.0))
    gate = (4.0 * opened * (1.0 - opened)).detach()
    return PolicyLoss(-(4.0 / tau) * opened * advantages, gate)


@dataclasses.dataclass(frozen=True)
class SAPO:
    """Soft Adaptive Policy Optimization (arXiv:2511.20347; read in TRL's and verl's code).

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        tau_positive: how soon the gradient fades as the ratio leaves 1, where A > 0; larger is sooner.
        tau_negative: the same where A < 0; the authors fade bad moves a little sooner than good ones.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "sapo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    tau_positive: Positive = 1.0
    tau_negative: Positive = 1.05
    advantage_scale: AdvantageScale = "none"
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """Nothing beyond sampled moves and rewards."""
        return Needs(group_scale=self.advantage_scale)

    def controls(self) -> Controls:
        """No bounds: nothing is clipped."""
        return Controls()

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean, scaled; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: the mean over each game, then over the games, as the source has it."""
        return reduction_weights(batch, "game_mean")

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` soft-ratio loss to minimise."""
        taus = self.tau_positive, self.tau_negative
        return soft_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, *taus)
