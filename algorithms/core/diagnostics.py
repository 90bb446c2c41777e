"""Logged quantities that need only tensors. Names and formulas: docs/metrics.md."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.core.advantages import group_mean
from algorithms.core.batch import RolloutBatch


def to_floats(values: dict[str, Tensor]) -> dict[str, float]:
    """The scalar tensors as Python floats, moved from the device in one transfer."""
    if not values:
        return {}
    stacked = torch.stack([value.detach().double().reshape(()) for value in values.values()])
    return dict(zip(values, stacked.tolist(), strict=True))


@torch.no_grad()
def ratio_sums(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    valid: Tensor,
    clip_low: float,
    clip_high: float,
) -> dict[str, Tensor]:
    """Sums over the valid samples from which `ratio_metrics` builds its means; all inputs `[N, K]`.

    Sums of several minibatches are added entry by entry, except `max`, which takes the larger.
    """
    log_ratio = torch.where(valid, logprobs - old_logprobs, 0.0).double()
    ratio = log_ratio.exp()
    above, below = ratio > 1 + clip_high, ratio < 1 - clip_low
    return {
        "count": valid.sum().double(),
        "zero_gradient_low": (valid & below & (advantages < 0)).sum().double(),
        "zero_gradient_high": (valid & above & (advantages > 0)).sum().double(),
        "out_of_range": (valid & (above | below)).sum().double(),
        "k3": (valid * (ratio - 1 - log_ratio)).sum(),
        "ratio": (valid * ratio).sum(),
        "ratio_squared": (valid * ratio.square()).sum(),
        "max": torch.where(valid, ratio, 0.0).max(),
    }


def ratio_metrics(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Scalar metrics of the importance ratio r = pi_learner / pi_behaviour from `ratio_sums`.

    - `policy/clip_fraction_low`, `policy/clip_fraction_high`: share of samples whose gradient the
      clip zeroes (r below with A < 0; r above with A > 0).
    - `policy/ratio_out_of_range`: share with r outside the bounds whatever the sign of A (the other
      definition in use; up to twice as large).
    - `policy/approx_kl`: mean of r - 1 - ln r, the k3 estimate of KL(behaviour || learner), nats.
    - `ratio/std`, `ratio/max`; `ratio/ess`: effective sample size over sample size, (sum r)^2 / (n
      sum r^2), in (0, 1].

    The mean ratio is left out on purpose: its expectation is 1 whatever went wrong.
    """
    count = sums["count"].clamp(min=1)
    mean, mean_square = sums["ratio"] / count, sums["ratio_squared"] / count
    return {
        "policy/clip_fraction_low": sums["zero_gradient_low"] / count,
        "policy/clip_fraction_high": sums["zero_gradient_high"] / count,
        "policy/ratio_out_of_range": sums["out_of_range"] / count,
        "policy/approx_kl": sums["k3"] / count,
        "ratio/std": (mean_square - mean.square()).clamp(min=0).sqrt(),
        "ratio/max": sums["max"],
        "ratio/ess": mean.square() / mean_square.clamp(min=torch.finfo(torch.float64).tiny),
    }


def add_sums(total: dict[str, Tensor], sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """`total + sums` entry by entry, the larger for `max`; an empty total gives `sums`."""
    if not total:
        return dict(sums)
    return {
        name: torch.maximum(total[name], value) if name == "max" else total[name] + value
        for name, value in sums.items()
    }


def legal_entropy(legal_logprobs: Tensor) -> Tensor:
    """`[...]` exact entropy, nats, of log-probabilities `[..., L]` (-inf on padding)."""
    finite = legal_logprobs.masked_fill(legal_logprobs.isinf(), 0.0)
    return -(legal_logprobs.exp() * finite).sum(-1)


@torch.no_grad()
def batch_metrics(batch: RolloutBatch, advantages: Tensor) -> dict[str, float]:
    """What one rollout looked like, over its valid samples (or states with at least one).

    `policy/entropy` is the exact entropy of the behaviour distribution in nats, and
    `policy/entropy_normalized` the mean of entropy / ln(num_legal), both over states with at least
    2 legal moves. `rollout/reward_std` and `rollout/reward_zero_std_fraction` are over groups with
    at least 2 valid members (unbiased standard deviation); `rollout/small_groups` counts the groups
    with fewer.
    """
    valid, axis = batch.valid, batch.group_axis
    state_valid = valid.any(-1) if batch.form == "positions" else valid
    num_legal = (batch.legal_ids >= 0).sum(-1)
    free = state_valid & (num_legal >= 2)
    entropy = legal_entropy(batch.old_legal_logprobs)
    normalized = entropy / num_legal.clamp(min=2).log()

    members = valid.sum(axis)
    grouped = members >= 2
    mean = group_mean(batch.rewards, valid, axis)
    centred = torch.where(valid, batch.rewards - mean, 0.0)
    std = (centred.square().sum(axis) / (members - 1).clamp(min=1)).sqrt()

    def mean_over(values: Tensor, chosen: Tensor) -> Tensor:
        return torch.where(chosen, values, 0).sum() / chosen.sum().clamp(min=1)

    advantage_mean = mean_over(advantages, valid)
    metrics = {
        "policy/entropy": mean_over(entropy, free),
        "policy/entropy_normalized": mean_over(normalized, free),
        "rollout/reward_mean": mean_over(batch.rewards, valid),
        "rollout/reward_std": mean_over(std, grouped),
        "rollout/reward_zero_std_fraction": mean_over((std == 0).float(), grouped),
        "rollout/advantage_mean": advantage_mean,
        "rollout/advantage_std": mean_over((advantages - advantage_mean).square(), valid).sqrt(),
        "rollout/num_legal_mean": mean_over(num_legal.float(), state_valid),
        "rollout/forced_fraction": mean_over((num_legal < 2).float(), state_valid),
        "rollout/small_groups": (members < 2).sum(),
        "rollout/scored_moves": valid.sum(),
        "rollout/terminated_fraction": mean_over(batch.terminated.float(), valid),
    }
    if batch.form == "positions":
        ordered = batch.slots.masked_fill(~valid, -1).sort(-1).values
        distinct = (ordered.diff(dim=-1) != 0).sum(-1) + 1 - (ordered[..., 0] < 0).long()
        metrics["rollout/distinct_moves_mean"] = mean_over(distinct.float(), state_valid)
    return to_floats(metrics)
