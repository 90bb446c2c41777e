"""REPO and REPO-R: entropy in the advantage, by the log-probability of the move; no gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import require
from algorithms.regularization.term import Term, Weight


@dataclass(frozen=True)
class RepoSettings:
    """How log-probabilities reshape the advantages.

    Attributes:
        repo_coef: REPO's beta, >= 0: the advantage loses beta x (log pi + entropy) of its move.
        repo_r_coef: REPO-R's zeta, >= 0: advantages of unlikely moves grow if positive and shrink
            if negative.
    """

    repo_coef: Weight = 0.0
    repo_r_coef: Weight = 0.0


def repo(settings: RepoSettings) -> Term:
    """The term that these settings mean; it reshapes advantages and has no loss.

    Raises:
        ValueError: both are on.
    """
    coef, r_coef = settings.repo_coef, settings.repo_r_coef
    require(
        coef == 0 or r_coef == 0,
        f"repo_coef is {coef} and repo_r_coef {r_coef}: both reshape the "
        "same advantage and their order would matter; set one of them to 0",
    )

    def in_advantage(advantages: Tensor, batch: RolloutBatch | FlatBatch) -> Tensor:
        if coef > 0:
            return reshaped(advantages, batch, coef)
        return reshaped_r(advantages, batch, r_coef)

    return Term(name="repo", coef=max(coef, r_coef), in_advantage=in_advantage)


@torch.no_grad()
def reshaped(advantages: Tensor, batch: RolloutBatch | FlatBatch, coef: float) -> Tensor:
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
def reshaped_r(advantages: Tensor, batch: RolloutBatch | FlatBatch, coef: float) -> Tensor:
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
