"""FlowRL: the policy is fitted to the distribution that the rewards tilt the reference into."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, group_relative
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, Group, Positive, check_fields, require
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import sample_mean


def flow_balance(
    logprobs: Tensor,
    old_logprobs: Tensor,
    ref_logprobs: Tensor,
    advantages: Tensor,
    valid: Tensor,
    *,
    beta: float,
    weight_max: float,
) -> Tensor:
    """`[N, K]` loss to minimise: sg(min(w, weight_max)) (log Z + log pi - beta A - log pi_ref)^2; 0 where not valid.

    w = exp(logprobs - old_logprobs). FlowRL (arXiv:2509.15207; read in the authors' code
    Xuekai-Zhu/FlowRL, dp_actor.py). Its minimum is pi = pi_ref exp(beta A) / Z. log Z of a state is
    here the value that minimises the loss of the state's own samples; at that value no gradient flows
    through it. No gradient flows into the weight, `old_logprobs`, `ref_logprobs` or `advantages`.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        ref_logprobs: `[N, K]` log-probabilities of the reference policy.
        advantages: `[N, K]`.
        valid: bool `[N, K]`; what other samples hold is never looked at.
        beta: > 0, nats for a unit of advantage.
        weight_max: > 0, largest importance weight.
    """
    ratio = torch.where(valid, (logprobs - old_logprobs).detach(), 0.0).exp()
    weight = torch.where(valid, ratio.clamp(max=weight_max), 0.0)
    gap = torch.where(valid, logprobs - beta * advantages.detach() - ref_logprobs.detach(), 0.0)
    total = weight.sum(-1, keepdim=True)
    log_z = -(weight * gap.detach()).sum(-1, keepdim=True) / torch.where(total > 0, total, 1.0)
    return weight * torch.where(valid, log_z + gap, 0.0).square()


@dataclasses.dataclass(frozen=True)
class FlowRL:
    """FlowRL (arXiv:2509.15207), with each position's own log Z in place of a learned one.

    Attributes:
        group_size: samples per position, >= 2; they also decide the position's log Z.
        update_epochs: passes over each batch; above 1 reuses samples and lets the weight leave 1.
        beta: nats that a unit of advantage is worth against the reference, > 0; larger is sharper.
        weight_max: largest importance weight, > 0.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
    """

    name: ClassVar[str] = "flowrl"
    group_size: Group = 8
    update_epochs: Epochs = 1
    beta: Positive = 15.0
    weight_max: AboveZero = 10.0
    advantage_scale: AdvantageScale = "group"

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """The reference policy's distribution."""
        return Needs(reference=True, fits_rewards=True, group_scale=self.advantage_scale)

    def controls(self) -> Controls:
        """No bounds."""
        return Controls()

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Rewards minus their group's mean, scaled; shaped like `batch.rewards`."""
        require(
            batch.form == "positions",
            f"{self.name} balances the samples of one position, and in the form {batch.form!r} the samples of a "
            "group are in different ones: set rollout.form to positions",
        )
        return group_relative(batch.rewards, batch.valid, batch.group_axis, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` flow-balance loss to minimise."""
        if batch.ref_legal_logprobs is None:
            raise ValueError(
                "the batch has no reference distribution: the loop fills FlatBatch.ref_legal_logprobs for an "
                "algorithm whose needs() asks for it"
            )
        ref_logprobs = batch.ref_legal_logprobs.gather(-1, batch.slots)
        loss = flow_balance(
            dist.gather(batch.slots), batch.old_logprobs, ref_logprobs, advantages, batch.valid,
            beta=self.beta, weight_max=self.weight_max,
        )  # fmt: skip
        return PolicyLoss(loss)
