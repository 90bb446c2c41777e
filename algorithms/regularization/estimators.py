"""Entropy and KL of each state, exact over the legal moves or estimated from the sampled ones.

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

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import require
from algorithms.core.distribution import MaskedCategorical


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


def importance_weight(dist: MaskedCategorical, batch: FlatBatch) -> Tensor:
    """`[N, K]` w = pi / pi_old at the sampled moves; 1 where not valid. Differentiable in pi."""
    return log_gap(dist, batch, batch.old_legal_logprobs).exp()


def exact_kl(dist: MaskedCategorical, batch: FlatBatch, other_legal_logprobs: Tensor) -> Tensor:
    """`[N]` KL(pi || other) over the legal moves, nats, >= 0. Differentiable in pi."""
    return dist.kl(other_legal_logprobs)


def kl_k1(dist: MaskedCategorical, batch: FlatBatch, other_legal_logprobs: Tensor) -> Tensor:
    """`[N]` mean of k1 over the state's valid samples, nats."""
    return mean_over_samples(k1(log_gap(dist, batch, other_legal_logprobs)), batch.valid)


def kl_k2(dist: MaskedCategorical, batch: FlatBatch, other_legal_logprobs: Tensor) -> Tensor:
    """`[N]` mean of k2 over the state's valid samples, nats."""
    return mean_over_samples(k2(log_gap(dist, batch, other_legal_logprobs)), batch.valid)


def kl_k3(dist: MaskedCategorical, batch: FlatBatch, other_legal_logprobs: Tensor) -> Tensor:
    """`[N]` mean of k3 over the state's valid samples, nats."""
    return mean_over_samples(k3(log_gap(dist, batch, other_legal_logprobs)), batch.valid)


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
    return -kl_k1(dist, batch, other_legal_logprobs)


ENTROPY: dict[str, Callable[[MaskedCategorical, FlatBatch], Tensor]] = {
    "exact": exact_entropy,
    "sampled": sampled_entropy,
}
"""Name -> `[N]` entropy of each state."""

KL: dict[str, Callable[[MaskedCategorical, FlatBatch, Tensor], Tensor]] = {
    "exact": exact_kl,
    "k1": kl_k1,
    "k2": kl_k2,
    "k3": kl_k3,
    "weighted_k3": kl_weighted_k3,
    "forward_k1": kl_forward_k1,
}
"""Name -> `[N]` KL(learner || other) of each state."""


def at_samples(batch: RolloutBatch, legal_logprobs: Tensor) -> Tensor:
    """Log-probabilities `[*S, L]` at the sampled moves, shaped like `batch.rewards`."""
    flat = legal_logprobs.reshape(-1, legal_logprobs.shape[-1])
    return flat.gather(-1, batch.flatten(batch.slots)).reshape(batch.slots.shape)


def check_placement(term: str, estimator: str, placement: str) -> None:
    """Raises ValueError where a reward, which belongs to one move, cannot hold the estimate."""
    require(
        placement == "loss" or estimator in PER_SAMPLE,
        f'{term}_placement is "reward" and {term}_estimator "{estimator}": a reward belongs '
        "to one move, the exact KL to a whole state, and the surrogate applies the ratio of "
        f'weighted_k3 already; set {term}_estimator to k1 (or k2, k3) or placement to "loss"',
    )
