"""Advantages from groups of rewards. Pure functions; none of them carries a gradient."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

AdvantageScale = Literal["group", "batch", "none"]

STD_FLOOR = 1e-4
"""Added to a standard deviation before dividing (TRL's value), so that equal rewards amplify no noise."""


def group_mean(rewards: Tensor, valid: Tensor, group_axis: int) -> Tensor:
    """Mean over each group's valid members, group axis kept with size 1; 0 without any.

    Summed in float64, so that equal rewards are exactly their mean; what invalid members hold,
    NaN included, is never looked at.
    """
    total = torch.where(valid, rewards, 0.0).double().sum(group_axis, keepdim=True)
    return (total / valid.sum(group_axis, keepdim=True).clamp(min=1)).to(rewards.dtype)


@torch.no_grad()
def group_relative(
    rewards: Tensor, valid: Tensor, group_axis: int, scale: AdvantageScale
) -> Tensor:
    """Rewards minus the mean over their group's valid members, optionally scaled; same shape.

    GRPO (arXiv:2402.03300) divides by the group's standard deviation (`group`, unbiased as in TRL
    and verl); Dr. GRPO (arXiv:2503.20783) does not (`none`). `batch` divides by one number for the
    whole batch, after Lite PPO (arXiv:2508.08221): here the root mean square of the *centred*
    rewards, because groups are different positions and the spread between positions says nothing
    about the spread within one.

    Members that are not valid get 0, and so does every member of a group with fewer than two valid
    members: a mean over one reward is no baseline (`diagnostics.batch_metrics` counts these as
    `rollout/small_groups`).

    Args:
        rewards: float `[...]` raw rewards.
        valid: bool, same shape.
        group_axis: the axis along which members of one group lie.
        scale: `group`, `batch` or `none`.

    Raises:
        ValueError: shapes differ or the scale is unknown.
    """
    if rewards.shape != valid.shape:
        raise ValueError(
            f"rewards have shape {tuple(rewards.shape)} and valid {tuple(valid.shape)}: they must "
            "be equal"
        )
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale is {scale!r}: expected 'group', 'batch' or 'none'")
    count = valid.sum(group_axis, keepdim=True)
    used = valid & (count >= 2)
    centred = torch.where(used, rewards - group_mean(rewards, valid, group_axis), 0.0)
    if scale == "none":
        return centred
    if scale == "group":
        variance = centred.square().sum(group_axis, keepdim=True) / (count - 1).clamp(min=1)
        return centred / (variance.sqrt() + STD_FLOOR)
    return centred / (centred.square().sum().div(used.sum().clamp(min=1)).sqrt() + STD_FLOOR)
