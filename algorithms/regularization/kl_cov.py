"""KL-Cov: a penalty on the few moves whose update would cost the most entropy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch
from algorithms.core.checks import OpenShare
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization.entropy_and_kl import log_gap, mean_over_samples
from algorithms.regularization.term import Term, Weight

_ROUNDING = 1024
"""Log-probabilities this many units of rounding apart count as equal, 1.2e-4 nats in float32.

Two passes over the same rows in batches of other sizes were measured up to 6e-6 nats apart at logits of
standard deviation 5, and 3e-5 at 20 (docs/algorithms/kl_cov.md).
"""


@dataclass(frozen=True)
class KLCovSettings:
    """The penalty on the moves of highest covariance.

    Attributes:
        kl_cov_coef: weight of KL-Cov's |log ratio| on the moves that cost most entropy, >= 0; no
            gradient until the policy has left the one that sampled.
        kl_cov_fraction: share of a minibatch's moves that KL-Cov holds back, in (0, 1]. The authors'
            2e-4 (32B) and 2e-3 (7B) are meant for far larger batches.
    """

    kl_cov_coef: Weight = 0.0
    kl_cov_fraction: OpenShare = 0.02


def kl_cov_term(settings: KLCovSettings) -> Term:
    """The term that these settings mean."""

    def value(dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor) -> Tensor:
        return kl_cov(dist, batch, advantages, settings.kl_cov_fraction)

    return Term(
        name="kl_cov",
        coef=settings.kl_cov_coef,
        estimate=value,
        setting="kl_cov_coef",
        needs_drift=True,
        averages_samples=True,
    )


@torch.no_grad()
def highest_covariance(
    logprobs: Tensor, advantages: Tensor, valid: Tensor, fraction: float
) -> Tensor:
    """Bool `[N, K]`: the max(1, round(fraction * n)) of the n valid samples with the highest cov.

    cov_i = (A_i - mean A)(l_i - mean l), means over the valid samples. All False where n = 0.
    """
    count = int(valid.sum())
    if count == 0:
        return torch.zeros_like(valid)

    def centred(values: Tensor) -> Tensor:
        return values - torch.where(valid, values, 0.0).sum() / count

    covariance = (centred(advantages) * centred(logprobs)).masked_fill(~valid, -torch.inf)
    highest = covariance.flatten().topk(max(1, round(fraction * count))).indices
    chosen = torch.zeros_like(valid).flatten()
    chosen[highest] = True
    return chosen.reshape(valid.shape)


def kl_cov(
    dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, fraction: float
) -> Tensor:
    """`[N]` |l - l_old| of the chosen samples, summed over K and divided by the state's valid samples.

    So the mean over states is the mean over samples where all are valid. At l = l_old the absolute
    value has no gradient: the first step on a batch does not feel this term. A gap of at most
    `_ROUNDING` units is taken for 0, because the absolute value's gradient is as large for a gap that
    rounding made as for any other.
    arXiv:2505.22617, read in the authors' code (PRIME-RL's Entropy-Mechanism-of-RL) and in verl; l is the current
    learner's, in the covariance too. They round the number of samples down.

    Args:
        dist: the learner.
        batch: a minibatch; covariances are taken over its valid samples.
        advantages: `[N, K]`.
        fraction: share of the valid samples that is held back.
    """
    logprobs = dist.gather(batch.slots).detach()
    chosen = highest_covariance(logprobs, advantages, batch.valid, fraction)
    old = batch.old_legal_logprobs
    gap = log_gap(dist, batch, old).abs()
    coarser = max(torch.finfo(logprobs.dtype).eps, torch.finfo(old.dtype).eps)
    moved = chosen & (gap > _ROUNDING * coarser)
    return mean_over_samples(torch.where(moved, gap, 0.0), batch.valid)
