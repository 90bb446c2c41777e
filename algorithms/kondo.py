"""The Kondo gate: the score function of a few samples, those of most delight or drawn by it."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import torch
from torch import Tensor

from algorithms.core.advantages import Credit, group_advantages
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import Epochs, Group, OpenShare, Positive, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import ranks, required_uniforms, sample_mean, score_function


@torch.no_grad()
def drawn_by_delight(
    delight: Tensor, valid: Tensor, uniforms: Tensor | None, rate: float, eta: float
) -> Tensor:
    """Bool `[N, K]`: uniform < sigmoid((delight - price) / eta); False where not valid.

    The price is the (1 - rate)-quantile of the valid delights, linearly interpolated. So about `rate` of the samples
    pass where eta is small beside the spread of the delights, and about half where it is large. The Kondo gate
    (arXiv:2603.20526, algorithm 1; read in the package `kondo-gate`, not in the paper's body).

    Args:
        delight: `[N, K]` advantage times surprisal, in the advantages' unit times nats.
        valid: bool `[N, K]`; what other samples hold, NaN included, is never looked at.
        uniforms: `[N, K]` random numbers in [0, 1), `FlatBatch.uniforms`.
        rate: in (0, 1].
        eta: softness, > 0, in the delight's unit.

    Raises:
        ValueError: there are no uniforms.
    """
    uniforms = required_uniforms(uniforms)
    if not valid.any():
        return torch.zeros_like(valid)
    price = delight[valid].double().quantile(1 - rate)
    odds = torch.sigmoid((torch.where(valid, delight, 0.0).double() - price) / eta)
    return valid & (uniforms < odds)


@torch.no_grad()
def of_most_delight(delight: Tensor, valid: Tensor, rate: float) -> Tensor:
    """Bool `[N, K]`: the round(rate * n) of the n valid samples with the highest delight, at least 1.

    What the author's release does in place of draws (arXiv:2603.20526). Of equal ones the first are taken.
    """
    number = (rate * valid.sum()).round().clamp(min=1)
    return valid & (ranks(torch.where(valid, -delight, torch.inf)) < number)


@dataclasses.dataclass(frozen=True)
class Kondo:
    """The Kondo gate of Delightful Policy Gradient (arXiv:2603.20526; second-hand, see docs/algorithms/kondo.md).

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; its gate and gradient use the current policy alone.
        rate: share of a minibatch's samples that keep their gradient, in (0, 1]; `sampled` meets it roughly.
        mode: each sample is drawn with the odds of its delight (`sampled`), or those of most are taken (`top`).
        eta: softness of the draw, > 0, in the advantages' unit x nats; `top` does not read it.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "kondo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    rate: OpenShare = 0.3
    mode: Literal["sampled", "top"] = "sampled"
    eta: Positive = 0.1
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """A random number for each sample where samples are drawn."""
        return Needs(uniforms=self.mode == "sampled", group_scale="none")

    def controls(self) -> Controls:
        """No bounds."""
        return Controls()

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, "none")

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same, left out or not."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` score-function loss of the samples that are kept, to minimise."""
        logprobs, valid = dist.gather(batch.slots), batch.valid
        delight = advantages * -logprobs.detach()
        if self.mode == "top":
            kept = of_most_delight(delight, valid, self.rate)
        else:
            kept = drawn_by_delight(delight, valid, batch.uniforms, self.rate, self.eta)
        gate = kept.to(advantages.dtype)
        return PolicyLoss(gate * score_function(logprobs, advantages), gate)
