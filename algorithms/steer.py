"""STEER: the clipped ratio, with less weight on the samples that are predicted to change the entropy most."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, Credit, group_advantages
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, Group, Share, check_fields, require
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, sample_mean
from algorithms.core.metrics import legal_entropy


@torch.no_grad()
def entropy_change_weights(
    dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, least: float, most: float
) -> Tensor:
    """`[N, K]` in [least, most], falling linearly in |A / p_old * p (1 - p) (log p + H_old)|; 0 where not valid.

    p is the learner's probability of the move and p_old the behaviour's, H_old the behaviour's exact entropy, nats.
    The smallest of these sizes in the tensors given (one minibatch) has weight `most` and the largest `least`; where
    all are equal, it is the middle. STEER (arXiv:2510.10150; read in the authors' code, zz-haooo/STEER,
    `compute_token_weights`). The authors bound p and p_old away from 0 and 1 by 1e-8; nothing here needs that.

    Args:
        dist: the current learner.
        batch: the states; what samples that are not valid hold, NaN included, is never looked at.
        advantages: `[N, K]`.
        least: smallest weight.
        most: largest weight.
    """
    valid = batch.valid
    old_entropy = legal_entropy(batch.old_legal_logprobs).unsqueeze(-1).double()
    logprobs = dist.gather(batch.slots).double()
    ratio = (logprobs - batch.old_logprobs).exp()
    size = (advantages * ratio * logprobs.expm1() * (logprobs + old_entropy)).abs()
    smallest, largest = size.where(valid, torch.inf).min(), size.where(valid, 0.0).max()
    spread = largest - smallest
    place = ((size - smallest) / spread).where(spread > 0, 0.5)
    return (most - (most - least) * place).where(valid, 0.0).to(advantages.dtype)


@dataclasses.dataclass(frozen=True)
class STEER:
    """Stabilizing Token-level Entropy-changE via Reweighting (arXiv:2510.10150; read in the authors' code).

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        weight_min: weight of the sample that is predicted to change the entropy most, >= 0.
        weight_max: weight of the one that changes it least, >= weight_min.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range` (the authors': 0.28).
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "steer"
    group_size: Group = 8
    update_epochs: Epochs = 1
    weight_min: float = 0.8
    weight_max: float = 1.2
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None
    advantage_scale: AdvantageScale = "none"
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            0 <= self.weight_min <= self.weight_max < math.inf and self.weight_max > 0,
            f"weight_min is {self.weight_min} and weight_max {self.weight_max}: weights lie between them; set "
            "0 <= weight_min <= weight_max, and weight_max above 0",
        )

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
        """Shaped like `batch.rewards`: every valid sample weighs the same before the gate."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise; less of it, the larger the predicted change of the entropy."""
        bounds = controls.clip_low, controls.clip_high
        loss = clipped_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds)
        gate = entropy_change_weights(dist, batch, advantages, self.weight_min, self.weight_max)
        return PolicyLoss(gate * loss, gate)
