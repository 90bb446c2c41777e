"""KL to a reference policy: an anchor that shapes the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import estimators
from algorithms.regularization.term import Term, Weight

# forward_k1 needs moves sampled from the other policy, and they are the behaviour policy's.
KLRefEstimator = Literal["exact", "k1", "k2", "k3", "weighted_k3"]

_NO_REFERENCE = (
    "{what} the batch has no reference distribution: compute it with "
    "rollouts.worker.reference_logprobs and RolloutBatch.with_reference, or set kl_ref_coef to 0"
)
# Placements and estimates whose expected gradient on the policy's own samples is not that of the KL
# (see estimators.py; in the reward an estimate's value counts, and k1's alone is it).
_OTHER_GRADIENT = (("loss", "k1"), ("loss", "k3"), ("reward", "k2"), ("reward", "k3"))


@dataclass(frozen=True)
class KLRefSettings:
    """The KL to the reference policy.

    Attributes:
        kl_ref_coef: weight of KL(policy || reference policy), >= 0: an anchor that shapes the
            optimum.
        kl_ref_estimator: as kl_old_estimator, without forward_k1.
        kl_ref_placement: as kl_old_placement.
    """

    kl_ref_coef: Weight = 0.0
    kl_ref_estimator: KLRefEstimator = "exact"
    kl_ref_placement: Literal["loss", "reward"] = "loss"


def kl_ref(settings: KLRefSettings) -> Term:
    """The term that these settings mean.

    Raises:
        ValueError: an estimator that a reward cannot hold.
    """
    name, placement = settings.kl_ref_estimator, settings.kl_ref_placement
    estimators.check_placement("kl_ref", name, placement)

    def value(dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor) -> Tensor:
        if batch.ref_legal_logprobs is None:
            what = f"kl_ref_coef is {settings.kl_ref_coef} but"
            raise ValueError(_NO_REFERENCE.format(what=what))
        return estimators.KL[name](dist, batch, batch.ref_legal_logprobs)

    def exact(dist: MaskedCategorical, batch: FlatBatch) -> Tensor | None:
        return None if batch.ref_legal_logprobs is None else dist.kl(batch.ref_legal_logprobs)

    def in_reward(batch: RolloutBatch) -> Tensor:
        return per_sample(batch, name)

    return Term(
        name="kl_ref",
        coef=settings.kl_ref_coef,
        estimate=value,
        estimator=name,
        exact=exact,
        in_reward=in_reward if placement == "reward" else None,
        coef_name="kl_ref_coef",
        setting="kl_ref_coef",
        needs_reference=True,
        averages_samples=placement == "loss" and name != "exact",
        keeps_optimum=(placement, name) not in _OTHER_GRADIENT,
    )


@torch.no_grad()
def per_sample(batch: RolloutBatch, estimator: str) -> Tensor:
    """Estimate of KL(behaviour || reference) at each sample, shaped like `rewards`; 0 if not valid.

    With k1 and one step per batch the policy gradient of -KL is exact; in later steps of the same
    batch the penalty stays that of the policy that sampled (as in TRL's and OpenRLHF's rewards).

    Raises:
        ValueError: the batch does not carry the reference distribution.
    """
    if batch.ref_legal_logprobs is None:
        raise ValueError(_NO_REFERENCE.format(what="kl_ref is in the reward and"))
    gap = batch.old_logprobs - estimators.at_samples(batch, batch.ref_legal_logprobs)
    return estimators.PER_SAMPLE[estimator](gap.masked_fill(~batch.valid, 0.0))
