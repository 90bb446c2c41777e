"""GRPO: group-relative advantages with PPO's clipped ratio."""

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
from algorithms.core.checks import AboveZero, Epochs, Group, OpenShare, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import Reduction, clipped_ratio, reduction_weights

ROUNDING = 1e-9
"""A rank this close above a whole number is that number."""


@torch.no_grad()
def top_entropy(dist: MaskedCategorical, valid: Tensor, fraction: float) -> Tensor:
    """`[N, K]` of 0 and 1: whether the state is among those of highest entropy; 0 where not valid.

    The states with a valid sample pass whose exact entropy is at least the (1 - fraction)-quantile, linearly
    interpolated, of those of the tensors given (one minibatch): all of them where they are equal. A state with one
    legal move has entropy 0. The 80/20 rule (arXiv:2506.01939; read in TRL's code, `top_entropy_quantile`).

    Args:
        dist: the current learner.
        valid: bool `[N, K]`.
        fraction: share of the states, in (0, 1].
    """
    entropy, used = dist.entropy(), valid.any(-1)
    count = used.sum()
    # What lies between two neighbours in order lets the upper one pass. `quantile` takes as long as all of this thrice.
    below = ((1 - fraction) * (count - 1) - ROUNDING).ceil().clamp(min=0).long()
    ordered = entropy.masked_fill(~used, torch.inf).sort().values
    passes = entropy >= ordered[below.unsqueeze(0)]
    return (valid & passes.unsqueeze(-1)).to(entropy.dtype)


@dataclasses.dataclass(frozen=True)
class GRPO:
    """Group Relative Policy Optimization (arXiv:2402.03300); Dr. GRPO with `advantage_scale="none"`.

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range`; larger slows the loss of entropy.
        dual_clip: ratios beyond it get no gradient where A < 0 (verl: 3); None sets no such bound.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
        reduction: mean over games of their means, over samples (DAPO), or sum over a constant length.
        live_groups: replace groups whose rewards are all equal by further samples (DAPO).
        top_entropy_fraction: share of a minibatch's states, those of highest entropy, that are learned from, in
            (0, 1] (80/20 rule: 0.2).
    """

    name: ClassVar[str] = "grpo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None
    dual_clip: DualClip | None = None
    advantage_scale: AdvantageScale = "group"
    credit: Credit = "step"
    gamma: Share = 1.0
    reduction: Reduction = "game_mean"
    live_groups: bool = False
    top_entropy_fraction: OpenShare = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """Live groups where they are asked for."""
        return Needs(live_groups=self.live_groups, group_scale=self.advantage_scale)

    def controls(self) -> Controls:
        """The clip bounds as configured."""
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean, scaled; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: the weights of the chosen reduction."""
        return reduction_weights(batch, self.reduction)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise, 0 in the states that are left out."""
        bounds = controls.clip_low, controls.clip_high, self.dual_clip
        loss = clipped_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds)
        if self.top_entropy_fraction == 1:
            return PolicyLoss(loss)
        gate = top_entropy(dist, batch.valid, self.top_entropy_fraction)
        return PolicyLoss(gate * loss, gate)
