"""Pass@k training: a move is worth what it adds to the best of k samples."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import require_success
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Count, Epochs, Group, check_fields, require
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, sample_mean

STD_FLOOR = 1e-6
"""Added to the standard deviation of pass@k before dividing (the authors' value)."""


def _none_drawn(failures: Tensor, samples: Tensor, k: int) -> Tensor:
    """C(failures, k) / C(samples, k): the share of k-subsets that hold failures alone; 0 where samples < k."""
    drawn = torch.arange(k, dtype=torch.float64, device=failures.device)
    left, whole = failures[..., None] - drawn, samples[..., None] - drawn
    # A factor of 0 stands in every product with failures < k, so that later negative ones do not matter.
    return (left.clamp(min=0) / whole.clamp(min=1)).prod(-1)


@torch.no_grad()
def pass_at_k(rewards: Tensor, valid: Tensor, group_axis: int, k: int) -> Tensor:
    """Advantages of 0/1 rewards for the success of the best of k samples; same shape.

    Pass@k training (arXiv:2508.10751, "analytical derivation"; read in the authors' code
    RUCAIBox/Passk_Training). All k-subsets of a group's n valid members are its groups of k, and a
    member gets the mean advantage of the subsets that hold it. With c successes and rho = 1 -
    C(n-c, k) / C(n, k) that is (1 - rho) / (s + 1e-6) for a success and (1 - rho - C(n-c-1, k-1) /
    C(n-1, k-1)) / (s + 1e-6) for a failure, s = sqrt(rho (1 - rho)). All are 0 without a success (no
    subset differs), with fewer than k failures (every subset succeeds), and with n < k (there is no
    subset). Members that are not valid get 0.

    Args:
        rewards: float `[...]` of 0 and 1.
        valid: bool, same shape.
        group_axis: the axis along which members of one group lie.
        k: >= 1.
    """
    samples = valid.sum(group_axis, keepdim=True).double()
    successes = (valid & (rewards > 0)).sum(group_axis, keepdim=True).double()
    failures = samples - successes
    failed = _none_drawn(failures, samples, k)  # 1 - rho
    std = (failed * (1 - failed)).sqrt() + STD_FLOOR
    others_failed = _none_drawn(failures - 1, samples - 1, k - 1)
    found = torch.where(rewards > 0, failed, failed - others_failed) / std
    counts = valid & (successes > 0) & (failures >= k) & (samples >= k)
    return torch.where(counts, found, 0.0).to(rewards.dtype)


@dataclasses.dataclass(frozen=True)
class PassAtK:
    """Pass@k training with its analytical advantage (arXiv:2508.10751): rewards are success or failure.

    Attributes:
        group_size: samples per group, > k; more mean less noise and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        k: samples of which the best one counts, in [1, group_size); more explore longer.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range`; larger slows the loss of entropy.
    """

    name: ClassVar[str] = "pass_at_k"
    group_size: Group = 8
    update_epochs: Epochs = 1
    k: Count = 4
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            self.k < self.group_size,
            f"k is {self.k} and group_size {self.group_size}: the choices of k samples of a group are compared, "
            "and there must be more than one; set k below group_size",
        )

    def needs(self) -> Needs:
        """Rewards of success or failure."""
        return Needs(success_rewards=True, reward_units=False)

    def controls(self) -> Controls:
        """The clip bounds as configured."""
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """What a sample adds to the success of k, in units of its std; shaped like `batch.rewards`."""
        require_success(batch, self.name)
        return pass_at_k(batch.rewards, batch.valid, batch.group_axis, self.k)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise."""
        bounds = controls.clip_low, controls.clip_high
        return PolicyLoss(
            clipped_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds)
        )
