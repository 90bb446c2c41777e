"""GRPO: group-relative advantages with PPO's clipped ratio."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Tensor

from algorithms.core.advantages import AdvantageScale, group_relative
from algorithms.core.algorithm import Controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.surrogates import clipped_ratio


@dataclasses.dataclass(frozen=True)
class GRPO:
    """Group Relative Policy Optimization (arXiv:2402.03300); Dr. GRPO with `advantage_scale="none"`.

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range`; larger slows the loss of entropy.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
    """

    name: ClassVar[str] = "grpo"
    group_size: int = 8
    update_epochs: int = 1
    clip_range: float = 0.2
    clip_range_high: float | None = None
    advantage_scale: AdvantageScale = "none"

    def __post_init__(self) -> None:
        if self.group_size < 2:
            raise ValueError(
                f"group_size is {self.group_size}: a mean needs 2; set group_size >= 2"
            )
        if self.update_epochs < 1:
            raise ValueError(f"update_epochs is {self.update_epochs}: set update_epochs >= 1")
        self.controls()

    def controls(self) -> Controls:
        """The clip bounds as configured."""
        high = self.clip_range if self.clip_range_high is None else self.clip_range_high
        return Controls(clip_low=self.clip_range, clip_high=high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Rewards minus their group's mean, scaled; shaped like `batch.rewards`."""
        return group_relative(batch.rewards, batch.valid, batch.group_axis, self.advantage_scale)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> Tensor:
        """`[N, K]` clipped-ratio loss to minimise."""
        low, high = controls.clip_low, controls.clip_high
        return clipped_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, low, high)
