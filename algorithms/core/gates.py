"""Gates: the share of a sample's gradient that is let through. No gradient flows through a gate."""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDING = 8
"""Values this many units of rounding apart count as equal: sums in another order differ by as much."""


def _mean_std(values: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Float64 mean and population standard deviation over the valid samples; 0 without any."""
    count = valid.sum().clamp(min=1)
    kept = torch.where(valid, values, 0.0).double()
    mean = kept.sum() / count
    std = (torch.where(valid, kept - mean, 0.0).square().sum() / count).sqrt()
    # Equal values may miss their rounded mean; what is left of them must not pass for a spread.
    lowest = torch.where(valid, kept, torch.inf).min()
    highest = torch.where(valid, kept, -torch.inf).max()
    return mean, torch.where(lowest < highest, std, 0.0)


def _departures(values: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Float64 values minus their mean over the valid samples, exactly 0 within rounding of it; and their std."""
    mean, std = _mean_std(values, valid)
    departure = values.double() - mean
    largest = torch.where(valid, values, 0.0).abs().max().double()
    rounding = _ROUNDING * torch.finfo(values.dtype).eps * largest
    return torch.where(departure.abs() > rounding, departure, 0.0), std


@torch.no_grad()
def delight(
    logprobs: Tensor, advantages: Tensor, valid: Tensor, *, eta: float, lam: float
) -> Tensor:
    """`[N, K]` in [0, 1]: sigmoid((A * (-logprobs) - lam) / (eta std(A))); 0 where not valid.

    The gate of Delightful Policy Gradient (arXiv:2603.14608; second-hand: read in Google's released
    code through a fork, not in the paper's body). Delight, A * (-logprobs), is large for moves
    that were unlikely and good. Where the paper divides by eta alone, eta is here in units of
    std(A), the population standard deviation over the valid samples of the tensors given (one
    minibatch), because chess advantages are far from unit scale. Equal advantages give 1/2.

    Args:
        logprobs: `[N, K]` log-probabilities of the *current* learner, nats.
        advantages: `[N, K]`.
        valid: bool `[N, K]`; what other samples hold, NaN included, is never looked at.
        eta: > 0; larger brings the gate nearer to 1/2 everywhere.
        lam: the delight at which the gate is 1/2, in the advantages' unit times nats.
    """
    _, std = _mean_std(advantages, valid)
    delight_ = torch.where(valid, advantages * -logprobs, 0.0).double()
    spread = (eta * std) > 0
    gate = torch.where(
        spread, torch.sigmoid((delight_ - lam) / torch.where(spread, eta * std, 1.0)), 0.5
    )
    return torch.where(valid, gate, 0.0).to(logprobs.dtype)


@torch.no_grad()
def clip_cov(
    logprobs: Tensor,
    advantages: Tensor,
    valid: Tensor,
    uniforms: Tensor | None,
    fraction: float,
    cov_low: float,
    cov_high: float,
) -> Tensor:
    """`[N, K]` of 0 and 1: some samples of high covariance get no gradient; 0 where not valid.

    Clip-Cov (arXiv:2505.22617; second-hand: read in verl's code, not in the paper's body). With
    cov_i = (A_i - mean A)(logprob_i - mean logprob) / std(A) over the N valid samples of the tensors
    given, round(fraction N) of those with cov_low < cov_i < cov_high are zeroed, at least 1 where
    any qualifies, at random: those with the smallest `uniforms`. The paper does not divide by
    std(A) (its advantages have unit scale) and verl also passes over samples that PPO's clip has
    zeroed already. A sample whose advantage or logprob differs from the mean by rounding alone has
    covariance 0 and stays in: with cov_low = 0 the sign of a rounding error would choose it.

    Args:
        logprobs: `[N, K]` log-probabilities of the current learner, nats.
        advantages: `[N, K]`.
        valid: bool `[N, K]`; what other samples hold, NaN included, is never looked at.
        uniforms: `[N, K]` random numbers in [0, 1), `FlatBatch.uniforms`.
        fraction: share of the valid samples to zero, in [0, 1].
        cov_low: lower bound, nats.
        cov_high: upper bound, nats.

    Raises:
        ValueError: there are no uniforms.
    """
    if uniforms is None:
        raise ValueError(
            "the batch has no uniforms: the loop fills FlatBatch.uniforms for an algorithm whose "
            "needs() asks for them"
        )
    advantage, std = _departures(advantages, valid)
    logprob, _ = _departures(logprobs, valid)
    product = advantage * logprob
    # Equal advantages covary with nothing, so that no sample qualifies.
    covariance = torch.where(valid & (std > 0), product / torch.where(std > 0, std, 1.0), 0.0)
    qualifies = valid & (covariance != 0) & (covariance > cov_low) & (covariance < cov_high)
    number = (fraction * valid.sum()).round().clamp(min=1)
    drawn = torch.where(qualifies, uniforms.double(), torch.inf).flatten()
    rank = torch.empty_like(drawn)
    rank[drawn.argsort(stable=True)] = torch.arange(
        len(drawn), dtype=drawn.dtype, device=drawn.device
    )
    zeroed = qualifies & (rank.reshape(qualifies.shape) < number)
    return (valid & ~zeroed).to(logprobs.dtype)
