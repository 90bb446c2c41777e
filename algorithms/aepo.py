"""AEPO: GRPO in which successes at another temperature, taken up by REINFORCE, pull entropy towards a target."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, group_relative, require_success
from algorithms.core.algorithm import (
    ClipRange,
    Controls,
    Needs,
    PolicyLoss,
    Tempered,
    clip_controls,
)
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import (
    AboveZero,
    Epochs,
    Group,
    NotNegative,
    Positive,
    Share,
    check_fields,
)
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, sample_mean


@torch.no_grad()
def with_tempered(
    rewards: Tensor, valid: Tensor, tempered: Tensor, scale: AdvantageScale
) -> Tensor:
    """1 for the valid samples of tempered groups, `group_relative` for all others; 0 where not valid; same shape.

    AEPO (arXiv:2510.08141; read in the authors' code 597358816/AEPO, verl/trainer/ray_trainer.py).

    Args:
        rewards: float `[..., G]`, a group's members last.
        valid: bool, same shape; of a tempered group the successes.
        tempered: bool `[...]` True where a group was drawn at another temperature.
        scale: what the others are divided by; tempered groups have no part in it.
    """
    tempered = tempered.unsqueeze(-1)
    relative = group_relative(rewards, valid & ~tempered, -1, scale)
    return torch.where(tempered, valid.to(rewards.dtype), relative)


@dataclasses.dataclass(frozen=True)
class AEPO:
    """Arbitrary Entropy Policy Optimization (arXiv:2510.08141): rewards are success or failure.

    Attributes:
        group_size: samples per position, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range`; larger slows the loss of entropy.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        tempered_share: share of the groups that give way to successes at another temperature; above `ent_target`
            half of it. 0 is GRPO.
        ent_target: entropy, nats, that they pull towards.
        temperature_low: of those samples, times `rollout.temperature`, where entropy is above the target.
        temperature_high: where it is at the target or below; larger pulls harder.
    """

    name: ClassVar[str] = "aepo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None
    advantage_scale: AdvantageScale = "group"
    tempered_share: Share = 60 / 2560
    ent_target: NotNegative = 0.5
    temperature_low: Positive = 0.8
    temperature_high: Positive = 1.2

    def __post_init__(self) -> None:
        check_fields(self)
        self._tempered()

    def _tempered(self) -> Tempered:
        temperatures = self.temperature_low, self.temperature_high
        return Tempered(self.tempered_share, self.ent_target, *temperatures)

    def needs(self) -> Needs:
        """Rewards of success or failure, and tempered samples unless their share is 0."""
        return Needs(
            success_rewards=True,
            reward_units=self.advantage_scale == "none",
            tempered=self._tempered() if self.tempered_share > 0 else None,
        )

    def controls(self) -> Controls:
        """The clip bounds as configured."""
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """1 where tempered, elsewhere rewards minus their group's mean, scaled; shaped like `batch.rewards`."""
        require_success(batch, self.name)
        if batch.tempered is None:
            return group_relative(
                batch.rewards, batch.valid, batch.group_axis, self.advantage_scale
            )
        return with_tempered(batch.rewards, batch.valid, batch.tempered, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise; tempered samples have the ratio of the rollout's temperature."""
        bounds = controls.clip_low, controls.clip_high
        return PolicyLoss(
            clipped_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds)
        )
