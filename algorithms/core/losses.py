"""Losses to minimise, per sample: policy-gradient surrogates and the critic's loss. Pure functions.

The update reduces them to one number.
"""

from __future__ import annotations

import torch
from torch import Tensor


def weighted_sum(samples: Tensor, weights: Tensor, valid: Tensor) -> Tensor:
    """Scalar sum(weights * samples) over the valid samples; all `[N, K]`, and invalid values do not matter."""
    return torch.where(valid, weights * samples, 0.0).sum()


def clipped_ratio(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
) -> Tensor:
    """`[N, K]` loss to minimise: -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A).

    r = exp(logprobs - old_logprobs); PPO eq. 7 (arXiv:1707.06347) with two bounds as in DAPO (arXiv:2503.14476).
    The gradient is zero for a sample with A > 0 and r > 1 + clip_high, or A < 0 and r < 1 - clip_low. No gradient flows
    into `old_logprobs` or `advantages`.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        advantages: `[N, K]`.
        clip_low: in (0, 1]; distance of the lower bound from 1.
        clip_high: > 0; distance of the upper bound from 1.
    """
    advantages = advantages.detach()
    ratio = (logprobs - old_logprobs.detach()).exp()
    clipped = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return -torch.minimum(ratio * advantages, clipped * advantages)


def score_function(logprobs: Tensor, advantages: Tensor) -> Tensor:
    """`[N, K]` loss to minimise: -A logprobs, the score-function estimator.

    Its expected gradient is minus the policy gradient (Williams 1992, doi:10.1007/BF00992696).
    Unbiased only for samples of the current policy; no gradient flows into `advantages`.
    """
    return -advantages.detach() * logprobs


def cispo(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
) -> Tensor:
    """`[N, K]` loss to minimise: -sg(clip(r, 1 - clip_low, 1 + clip_high)) A logprobs.

    r = exp(logprobs - old_logprobs); CISPO (arXiv:2506.13585, eq. 4 and 5 by verl's account): the
    importance weight is clipped and no sample loses its gradient. The bounds are distances from 1 as
    in verl; TRL clamps r at its `epsilon_high` itself, without the 1, and has no lower bound: its
    epsilon_high=5 is clip_low=1, clip_high=4 here. No gradient flows into the weight,
    `old_logprobs` or `advantages`.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        advantages: `[N, K]`.
        clip_low: in (0, 1]; distance of the lower bound from 1.
        clip_high: > 0; distance of the upper bound from 1.
    """
    ratio = (logprobs - old_logprobs).detach().exp()
    weight = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return score_function(logprobs, weight * advantages)


def expected_advantage(logprobs: Tensor, advantages: Tensor) -> Tensor:
    """`[N, K]` loss to minimise: -exp(logprobs) A, a move's share of minus the expected advantage.

    Added over *all* legal moves of a state it is -sum_a pi(a) A(a), whose gradient is minus the
    policy gradient (the theorem of Sutton et al. 1999,
    https://mlanthology.org/neurips/1999/sutton1999neurips-policy/) without sampling noise. No
    gradient flows into `advantages`.
    """
    return -advantages.detach() * logprobs.exp()


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, clip_range_vf: float | None
) -> Tensor:
    """`[N, K]` loss to minimise: .5 max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2).

    The clipped value loss of PPO's implementations (verl, CleanRL; no equation in arXiv:1707.06347)
    times .5; `clip_range_vf=None` leaves .5 (V - R)^2. The gradient flows into `values` alone.

    Args:
        values: `[N]` the critic's values now, side to move's view, reward units.
        old_values: `[N]` its values when the moves were sampled.
        returns: `[N, K]` its targets, one for each sample of the state.
        clip_range_vf: c > 0, reward units, or None.
    """
    values, old_values = values.unsqueeze(-1), old_values.detach().unsqueeze(-1)
    returns = returns.detach()
    squared = (values - returns).square()
    if clip_range_vf is None:
        return 0.5 * squared
    near = old_values + (values - old_values).clamp(-clip_range_vf, clip_range_vf)
    return 0.5 * torch.maximum(squared, (near - returns).square())
