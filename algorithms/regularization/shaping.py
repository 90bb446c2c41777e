"""KL inside the reward, and advantages reshaped by log-probability: fixed numbers, no gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.regularization.estimators import PER_SAMPLE


def _at_samples(batch: RolloutBatch, legal_logprobs: Tensor) -> Tensor:
    """Log-probabilities `[*S, L]` at the sampled moves, shaped like `batch.rewards`."""
    flat = legal_logprobs.reshape(-1, legal_logprobs.shape[-1])
    return flat.gather(-1, batch.flatten(batch.slots)).reshape(batch.slots.shape)


@torch.no_grad()
def kl_old_per_sample(batch: RolloutBatch, estimator: str) -> Tensor:
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
    gap = _at_samples(batch, batch.learner_legal_logprobs) - batch.old_logprobs
    return PER_SAMPLE[estimator](gap.masked_fill(~batch.valid, 0.0))


@torch.no_grad()
def kl_ref_per_sample(batch: RolloutBatch, estimator: str) -> Tensor:
    """Estimate of KL(behaviour || reference) at each sample, shaped like `rewards`; 0 if not valid.

    With k1 and one step per batch the policy gradient of -KL is exact; in later steps of the same
    batch the penalty stays that of the policy that sampled (as in TRL's and OpenRLHF's rewards).

    Raises:
        ValueError: the batch does not carry the reference distribution.
    """
    if batch.ref_legal_logprobs is None:
        raise ValueError(
            "kl_ref is in the reward and the batch has no reference distribution: compute it with "
            "rollouts.worker.reference_logprobs and RolloutBatch.with_reference, or set kl_ref_coef to 0"
        )
    gap = batch.old_logprobs - _at_samples(batch, batch.ref_legal_logprobs)
    return PER_SAMPLE[estimator](gap.masked_fill(~batch.valid, 0.0))


@torch.no_grad()
def repo(advantages: Tensor, batch: RolloutBatch | FlatBatch, coef: float) -> Tensor:
    """A - coef (l + H): REPO. l, H are the behaviour policy's, nats; invalid samples get 0.

    On-policy its expected gradient is that of the policy gradient plus the exact entropy bonus of
    weight `coef`, because grad H = -E[(l + H) grad l]; checked by enumeration.
    Second-hand: arXiv:2603.11682 was not read in full; form from SkyRL and notes on the paper.

    Args:
        advantages: shaped like `batch.old_logprobs`.
        batch: the rollout, or a minibatch of it.
        coef: REPO's beta, units of the advantages per nat.
    """
    legal = batch.old_legal_logprobs
    finite = legal.masked_fill(legal.isneginf(), 0.0)
    entropy = -(legal.exp() * finite).sum(-1)
    if advantages.ndim > entropy.ndim:  # several samples of a state
        entropy = entropy.unsqueeze(-1)
    shaped = advantages - coef * (batch.old_logprobs + entropy)
    return torch.where(batch.valid, shaped, 0.0)


@torch.no_grad()
def repo_r(advantages: Tensor, batch: RolloutBatch | FlatBatch, coef: float) -> Tensor:
    """A (1 - coef l) where A > 0, A max(0, 1 + coef l) where A < 0: REPO-R. Invalid samples get 0.

    l <= 0 is the behaviour policy's log-probability: an unlikely good move is raised more, an
    unlikely bad one lowered less. The bound 0 is part of the definition: an advantage keeps its sign.
    Second-hand: arXiv:2603.11682 was not read in full; form from SkyRL and notes on the paper,
    which writes it as beta = zeta |A|.

    Args:
        advantages: shaped like `batch.old_logprobs`.
        batch: the rollout, or a minibatch of it.
        coef: REPO-R's zeta, per nat.
    """
    step = coef * batch.old_logprobs
    factor = torch.where(advantages > 0, 1.0 - step, (1.0 + step).clamp(min=0.0))
    return torch.where(batch.valid, advantages * factor, 0.0)
