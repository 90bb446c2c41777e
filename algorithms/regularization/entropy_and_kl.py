"""Entropy and KL: estimates of each state, exact over the legal moves or from the sampled ones, and their terms.

l is the learner's log-probability of a sampled move, l_other another policy's, d = l - l_other and
w = exp(l - l_old). What matters in a loss is each estimator's *gradient*; its expectation over moves
sampled by the behaviour policy, against that of the exact KL (float64 enumeration in
tests/zoo/test_theory_kl.py):

| estimator   | behaviour = learner               | behaviour elsewhere |
|-------------|-----------------------------------|---------------------|
| exact       | exact                             | exact               |
| k1          | zero                              | wrong               |
| k2          | exact                             | wrong               |
| k3          | that of the forward KL(other||pi) | wrong               |
| weighted_k3 | exact                             | exact               |
| forward_k1  | zero                              | forward KL(old||pi) |

k1, k2, k3: J. Schulman, "Approximating KL divergence" (2020). That k1 vanishes and k3 is the forward
KL is OpenRLHF's pull request 1309. Sampled estimators are experiment switches: with at most 218 legal
moves the exact value costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import require
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization.term import Term, Weight


def mean_over_samples(values: Tensor, valid: Tensor) -> Tensor:
    """`[N]` mean over each state's valid samples; 0 where a state has none."""
    return torch.where(valid, values, 0.0).sum(-1) / valid.sum(-1).clamp(min=1)


def exact_entropy(dist: MaskedCategorical, batch: FlatBatch) -> Tensor:
    """`[N]` entropy over the legal moves, nats; its gradient in the logits is -p (log p + H) / T."""
    return dist.entropy()


def sampled_entropy(dist: MaskedCategorical, batch: FlatBatch) -> Tensor:
    """`[N]` -mean of l over the state's sampled moves, nats: the "entropy" of the post-mortems.

    An unbiased *value* on-policy, and no entropy bonus at all. E_pi[grad l] = 0, so on-policy the
    expected gradient of the bonus is zero. Off-policy this is the cross-entropy -E_old[l], without
    upper bound, and the bonus is exactly minus a `forward_k1` penalty of the same weight (the
    post-mortems' "KL"; equal weights cancel): it pushes the policy away from its own samples. See
    section 0, point 1, of the project's algorithm notes; post-mortem 2 called it the "KL trap".
    """
    return -mean_over_samples(dist.gather(batch.slots), batch.valid)


def k1(gap: Tensor) -> Tensor:
    """The gap d itself, in its own shape: unbiased value, negative for some samples."""
    return gap


def k2(gap: Tensor) -> Tensor:
    """Half the square of d, in its shape: biased value, never negative."""
    return 0.5 * gap.square()


def k3(gap: Tensor) -> Tensor:
    """exp(-d) - 1 + d, in the shape of d: unbiased, never negative. GRPO's penalty (arXiv:2402.03300, eq. 4)."""
    return torch.expm1(-gap) + gap


PER_SAMPLE: dict[str, Callable[[Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}
"""Name -> estimator of a single sample from d, any shape."""


def log_gap(dist: MaskedCategorical, batch: FlatBatch, other_legal_logprobs: Tensor) -> Tensor:
    """`[N, K]` d = l - l_other at the sampled moves, nats; 0 where not valid. Differentiable in l.

    Args:
        dist: the learner.
        batch: says which moves were sampled.
        other_legal_logprobs: `[N, L]` the other policy; -inf on padding.
    """
    gap = dist.gather(batch.slots) - other_legal_logprobs.gather(-1, batch.slots).detach()
    # Before anything nonlinear: the other policy may hold -inf on padding.
    return torch.where(batch.valid, gap, 0.0)


KLEstimate = Callable[[MaskedCategorical, FlatBatch, Tensor], Tensor]
"""(learner, minibatch, another policy's `[N, L]` log-probabilities) -> `[N]` nats."""


def importance_weight(dist: MaskedCategorical, batch: FlatBatch) -> Tensor:
    """`[N, K]` w = pi / pi_old at the sampled moves; 1 where not valid. Differentiable in pi."""
    return log_gap(dist, batch, batch.old_legal_logprobs).exp()


def exact_kl(dist: MaskedCategorical, batch: FlatBatch, other_legal_logprobs: Tensor) -> Tensor:
    """`[N]` KL(pi || other) over the legal moves, nats, >= 0. Differentiable in pi."""
    return dist.kl(other_legal_logprobs)


def kl_per_sample(name: str) -> KLEstimate:
    """The estimate `[N]` of k1, k2 or k3: its mean over each state's valid samples, nats."""

    def estimate(dist: MaskedCategorical, batch: FlatBatch, other_legal_logprobs: Tensor) -> Tensor:
        gap = log_gap(dist, batch, other_legal_logprobs)
        return mean_over_samples(PER_SAMPLE[name](gap), batch.valid)

    return estimate


def kl_weighted_k3(
    dist: MaskedCategorical, batch: FlatBatch, other_legal_logprobs: Tensor
) -> Tensor:
    """`[N]` mean of w k3 over the state's valid samples, nats; the gradient flows through w too.

    DeepSeek-V3.2's unbiased form; TRL's `use_bias_correction_kl`.
    """
    terms = importance_weight(dist, batch) * k3(log_gap(dist, batch, other_legal_logprobs))
    return mean_over_samples(terms, batch.valid)


def kl_forward_k1(
    dist: MaskedCategorical, batch: FlatBatch, other_legal_logprobs: Tensor
) -> Tensor:
    """`[N]` mean of l_other - l over the state's valid samples, nats: k1 of KL(other || pi).

    Meaningful to the behaviour policy alone, whose moves these are. The post-mortems' KL penalty:
    its expected gradient is exactly that of the forward KL(old || pi), which holds the policy at its
    samples, while that of `k1` is the opposite and repels it.
    """
    return -kl_per_sample("k1")(dist, batch, other_legal_logprobs)


ENTROPY: dict[str, Callable[[MaskedCategorical, FlatBatch], Tensor]] = {
    "exact": exact_entropy,
    "sampled": sampled_entropy,
}
"""Name -> `[N]` entropy of each state."""

KL: dict[str, KLEstimate] = {
    "exact": exact_kl,
    **{name: kl_per_sample(name) for name in PER_SAMPLE},
    "weighted_k3": kl_weighted_k3,
    "forward_k1": kl_forward_k1,
}
"""Name -> `[N]` KL(learner || other) of each state."""


def at_samples(batch: RolloutBatch, legal_logprobs: Tensor) -> Tensor:
    """Log-probabilities `[*S, L]` at the sampled moves, shaped like `batch.rewards`."""
    flat = legal_logprobs.reshape(-1, legal_logprobs.shape[-1])
    return flat.gather(-1, batch.flatten(batch.slots)).reshape(batch.slots.shape)


EntropyEstimator = Literal["exact", "sampled"]


@dataclass(frozen=True)
class EntropySettings:
    """The bonus.

    Attributes:
        ent_coef: weight of the entropy bonus, >= 0; larger keeps the policy broader.
        ent_coef_final: value reached at the end of training, linearly in the progress; None keeps
            it constant.
        ent_estimator: "exact" over all legal moves; "sampled" repeats the post-mortems' bonus,
            which rewards no entropy (see entropy_and_kl.py): an experiment switch.
    """

    ent_coef: Weight = 0.0
    ent_coef_final: Weight | None = None
    ent_estimator: EntropyEstimator = "exact"


def entropy(settings: EntropySettings) -> Term:
    """The term that these settings mean."""
    estimate = ENTROPY[settings.ent_estimator]

    def value(dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor) -> Tensor:
        return estimate(dist, batch)

    sampled = settings.ent_estimator != "exact"
    return Term(
        name="entropy",
        coef=settings.ent_coef,
        sign=-1,
        estimate=value,
        estimator=settings.ent_estimator,
        exact=exact_entropy,
        coef_name="ent_coef",
        setting="ent_coef",
        averages_samples=sampled,
        keeps_optimum=not sampled,
    )


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
    in_loss = settings.kl_old_placement == "loss"
    term = _kl_term(
        "kl_old",
        settings.kl_old_coef,
        settings.kl_old_estimator,
        in_loss=in_loss,
        other=lambda batch: batch.old_legal_logprobs,
        gap=_gap_to_behaviour,
    )
    return replace(
        term,
        needs_learner=not in_loss,
        needs_drift=True,
        keeps_optimum=True,  # it is 0 at any resting point
    )


def _gap_to_behaviour(batch: RolloutBatch) -> Tensor:
    """learner - behaviour at each sample, nats.

    Nonzero only while the old policy that samples is behind the learner.

    Raises:
        ValueError: the batch does not carry the learner's distribution.
    """
    if batch.learner_legal_logprobs is None:
        raise ValueError(
            "kl_old is in the reward and the batch has no learner_legal_logprobs: fill them in "
            'after the rollout (Regularizer.needs_learner asks for it), or set kl_old_placement to "loss"'
        )
    return at_samples(batch, batch.learner_legal_logprobs) - batch.old_logprobs


# forward_k1 needs moves sampled from the other policy, and they are the behaviour policy's.
KLRefEstimator = Literal["exact", "k1", "k2", "k3", "weighted_k3"]

_NO_REFERENCE = (
    "{what} the batch has no reference distribution: compute it with "
    "rollouts.worker.reference_logprobs and RolloutBatch.with_reference, or set kl_ref_coef to 0"
)
# Placements and estimates whose expected gradient on the policy's own samples is not that of the KL
# (see the table at the top; in the reward an estimate's value counts, and k1's alone is it).
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
    placement, estimator = settings.kl_ref_placement, settings.kl_ref_estimator
    term = _kl_term(
        "kl_ref",
        settings.kl_ref_coef,
        estimator,
        in_loss=placement == "loss",
        other=lambda batch: batch.ref_legal_logprobs,
        gap=_gap_to_reference,
    )
    keeps_optimum = (placement, estimator) not in _OTHER_GRADIENT
    return replace(term, needs_reference=True, keeps_optimum=keeps_optimum)


def _gap_to_reference(batch: RolloutBatch) -> Tensor:
    """behaviour - reference at each sample, nats.

    With k1 and one step per batch the policy gradient of -KL is exact; in later steps of the same
    batch the penalty stays that of the policy that sampled (as in TRL's and OpenRLHF's rewards).

    Raises:
        ValueError: the batch does not carry the reference distribution.
    """
    if batch.ref_legal_logprobs is None:
        raise ValueError(_NO_REFERENCE.format(what="kl_ref is in the reward and"))
    return batch.old_logprobs - at_samples(batch, batch.ref_legal_logprobs)


def _kl_term(
    name: str,
    coef: float,
    estimator: str,
    *,
    in_loss: bool,
    other: Callable[[FlatBatch], Tensor | None],
    gap: Callable[[RolloutBatch], Tensor],
) -> Term:
    """The KL to another policy, in the loss or in the reward.

    Args:
        name: of the term.
        coef: its weight.
        estimator: a name of `KL`.
        in_loss: False puts it into the reward.
        other: the other policy's `[N, L]` log-probabilities; None where a minibatch has none.
        gap: what the estimate of a reward is made of at each sample, nats.

    Raises:
        ValueError: an estimator that a reward cannot hold.
    """
    require(
        in_loss or estimator in PER_SAMPLE,
        f'{name}_placement is "reward" and {name}_estimator "{estimator}": a reward belongs '
        "to one move, the exact KL to a whole state, and the surrogate applies the ratio of "
        f'weighted_k3 already; set {name}_estimator to k1 (or k2, k3) or placement to "loss"',
    )

    def value(dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor) -> Tensor:
        legal_logprobs = other(batch)
        if legal_logprobs is None:
            raise ValueError(_NO_REFERENCE.format(what=f"{name}_coef is {coef} but"))
        return KL[estimator](dist, batch, legal_logprobs)

    def exact(dist: MaskedCategorical, batch: FlatBatch) -> Tensor | None:
        legal_logprobs = other(batch)
        return None if legal_logprobs is None else dist.kl(legal_logprobs)

    @torch.no_grad()
    def in_reward(batch: RolloutBatch) -> Tensor:
        return PER_SAMPLE[estimator](gap(batch).masked_fill(~batch.valid, 0.0))

    return Term(
        name=name,
        coef=coef,
        estimate=value,
        estimator=estimator,
        exact=exact,
        in_reward=None if in_loss else in_reward,
        coef_name=f"{name}_coef",
        setting=f"{name}_coef",
        averages_samples=in_loss and estimator != "exact",
    )
