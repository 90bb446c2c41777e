"""Policy-gradient surrogates: per-sample losses to minimise. Reduction is the update's business."""

from __future__ import annotations

import torch
from torch import Tensor


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
    """`[N, K]` loss to minimise: -A logprobs, the score-function estimator (Williams 1992).

    Its expected gradient is minus the policy gradient. Unbiased only for samples of the
    current policy; no gradient flows into `advantages`.
    """
    return -advantages.detach() * logprobs
