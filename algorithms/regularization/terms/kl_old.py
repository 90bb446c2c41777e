"""KL to the policy that sampled: a trust region that vanishes at each new batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import estimators
from algorithms.regularization.term import Term, Weight

KLOldEstimator = Literal["exact", "k1", "k2", "k3", "weighted_k3", "forward_k1"]


@dataclass(frozen=True)
class KLOldSettings:
    """The KL to the behaviour policy.

    Attributes:
        kl_old_coef: weight of KL(policy || behaviour policy), >= 0: a trust region that vanishes at
            each new batch.
        kl_old_estimator: "exact", or at the sampled moves (experiments) k1, k2, k3, weighted_k3, or
            forward_k1: mean(l_old - l), the penalty that the post-mortems called KL.
        kl_old_placement: in the "loss" (gradient through it) or subtracted from the "reward".
    """

    kl_old_coef: Weight = 0.0
    kl_old_estimator: KLOldEstimator = "exact"
    kl_old_placement: Literal["loss", "reward"] = "loss"


def kl_old(settings: KLOldSettings) -> Term:
    """The term that these settings mean.

    Raises:
        ValueError: an estimator that a reward cannot hold.
    """
    name, placement = settings.kl_old_estimator, settings.kl_old_placement
    estimators.check_placement("kl_old", name, placement)

    def value(dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor) -> Tensor:
        return estimators.KL[name](dist, batch, batch.old_legal_logprobs)

    def exact(dist: MaskedCategorical, batch: FlatBatch) -> Tensor:
        return dist.kl(batch.old_legal_logprobs)

    def in_reward(batch: RolloutBatch) -> Tensor:
        return per_sample(batch, name)

    return Term(
        name="kl_old",
        coef=settings.kl_old_coef,
        estimate=value,
        estimator=name,
        exact=exact,
        in_reward=in_reward if placement == "reward" else None,
        coef_name="kl_old_coef",
        setting="kl_old_coef",
        needs_learner=placement == "reward",
        needs_drift=True,
        averages_samples=placement == "loss" and name != "exact",
        keeps_optimum=True,  # it is 0 at any resting point
    )


@torch.no_grad()
def per_sample(batch: RolloutBatch, estimator: str) -> Tensor:
    """Estimate of KL(learner || behaviour) at each sample, shaped like `rewards`; 0 if not valid.

    Nonzero only while the old policy that samples is behind the learner.

    Raises:
        ValueError: the batch does not carry the learner's distribution.
    """
    if batch.learner_legal_logprobs is None:
        raise ValueError(
            "kl_old is in the reward and the batch has no learner_legal_logprobs: fill them in "
            'after the rollout (Regularizer.needs_learner asks for it), or set kl_old_placement to "loss"'
        )
    learner = estimators.at_samples(batch, batch.learner_legal_logprobs)
    gap = learner - batch.old_logprobs
    return estimators.PER_SAMPLE[estimator](gap.masked_fill(~batch.valid, 0.0))
