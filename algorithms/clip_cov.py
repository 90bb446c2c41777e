"""Clip-Cov: GRPO with very wide clip bounds, without a few samples of high covariance."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from torch import Tensor

from algorithms.core.advantages import Credit, group_advantages
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import Epochs, Group, Share, check_fields, require, require_between
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clip_cov, clipped_ratio, cut_by_clip, sample_mean


@dataclasses.dataclass(frozen=True)
class ClipCov:
    """Clip-Cov (arXiv:2505.22617; read in the authors' code, see core/losses.py).

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_fraction: share of samples left out, in (0, 1]; at least one (authors: 2e-4 of 1e6).
        cov_low: least covariance of a sample that may be left out, nats (A in units of its std).
        cov_high: largest such covariance, nats.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "clip_cov"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_fraction: float = 0.02
    cov_low: float = 1.0
    cov_high: float = 5.0
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        require_between("clip_fraction", self.clip_fraction, 1e-9, 1.0)
        require(
            0 <= self.cov_low <= self.cov_high < math.inf,
            f"cov_low is {self.cov_low} and cov_high {self.cov_high}: set 0 <= cov_low <= cov_high",
        )

    def needs(self) -> Needs:
        """A random number for each sample."""
        return Needs(uniforms=True, group_scale="none")

    def controls(self) -> Controls:
        """PPO's bounds widened to [0, 2], as the paper's scripts have them."""
        return Controls(clip_low=1.0, clip_high=1.0)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, "none")

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise, without the samples left out."""
        logprobs, bounds = dist.gather(batch.slots), (controls.clip_low, controls.clip_high)
        clipped = cut_by_clip(logprobs, batch.old_logprobs, advantages, *bounds)
        settings = self.clip_fraction, self.cov_low, self.cov_high, clipped
        kept = clip_cov(logprobs, advantages, batch.valid, batch.uniforms, *settings)
        loss = clipped_ratio(logprobs, batch.old_logprobs, advantages, *bounds)
        return PolicyLoss(kept * loss, kept)
