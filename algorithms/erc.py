"""ERC: the clipped ratio, without the states whose entropy has moved too far from that of the sampling policy."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, Credit, group_advantages
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, Group, Rule, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, sample_mean
from algorithms.core.metrics import legal_entropy

FLOOR = 1e-8
"""Nats added to both entropies (the authors' value), so that a state with one legal move has ratio 1."""

RatioLow = Annotated[
    float, Rule(lambda low: 0 <= low < 1, "an unmoved state has ratio 1; set it in [0, 1)")
]
RatioHigh = Annotated[
    float,
    Rule(lambda high: high > 1, "an unmoved state has ratio 1; set it above 1 (inf: no bound)"),
]


@torch.no_grad()
def within_entropy_ratio(
    dist: MaskedCategorical, batch: FlatBatch, low: float, high: float
) -> Tensor:
    """`[N, K]` of 0 and 1: whether low < H / H_old < high in the sample's state; 0 where not valid.

    H is the learner's exact entropy and H_old the behaviour's, both over the legal moves at the rollout's
    temperature, nats, each plus 1e-8. Entropy Ratio Clipping (arXiv:2512.05591; read in the authors' code,
    Kwai-Klear/ERC, `core_algos.py`). Below about 1e-6 nats float32 rounding decides, where gradients are as small.

    Args:
        dist: the learner.
        batch: the states.
        low: in [0, 1).
        high: above 1; infinity switches it off.
    """
    ratio = (dist.entropy() + FLOOR) / (legal_entropy(batch.old_legal_logprobs) + FLOOR)
    passes = (low < ratio) & (ratio < high)
    return (batch.valid & passes.unsqueeze(-1)).to(ratio.dtype)


@dataclasses.dataclass(frozen=True)
class ERC:
    """Entropy Ratio Clipping (arXiv:2512.05591; read in the authors' code) of GRPO's loss.

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        entropy_ratio_low: a state learns while H / H_old is above it, in [0, 1); 0 sets no bound.
        entropy_ratio_high: and below it, > 1; infinity sets no bound.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range` (the authors': 0.28).
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "erc"
    group_size: Group = 8
    update_epochs: Epochs = 1
    entropy_ratio_low: RatioLow = 0.95
    entropy_ratio_high: RatioHigh = 1.05
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None
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
        """`[N, K]` clipped-ratio loss to minimise, 0 in the states that are left out."""
        bounds = controls.clip_low, controls.clip_high
        loss = clipped_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds)
        gate = within_entropy_ratio(dist, batch, self.entropy_ratio_low, self.entropy_ratio_high)
        return PolicyLoss(gate * loss, gate)
