"""REPO and REPO-R: entropy in the advantage, by the log-probability of the move; no gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import require
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.metrics import legal_entropy
from algorithms.regularization.term import Term, Weight


@dataclass(frozen=True)
class RepoSettings:
    """How log-probabilities reshape the advantages.

    Attributes:
        repo_coef: REPO's beta, >= 0: the advantage loses beta x (log pi + entropy) of its move.
        repo_r_coef: REPO-R's zeta at the start, >= 0: advantages of unlikely moves grow if positive and
            shrink if negative.
    """

    repo_coef: Weight = 0.0
    repo_r_coef: Weight = 0.0


def repo(settings: RepoSettings) -> Term:
    """The term of REPO; it reshapes the advantages of a rollout and has no loss.

    Raises:
        ValueError: REPO-R is on too.
    """
    coef, r_coef = settings.repo_coef, settings.repo_r_coef
    require(
        coef == 0 or r_coef == 0,
        f"repo_coef is {coef} and repo_r_coef {r_coef}: both reshape the "
        "same advantage and their order would matter; set one of them to 0",
    )

    def in_advantage(advantages: Tensor, batch: RolloutBatch | FlatBatch) -> Tensor:
        return reshaped(advantages, batch, coef)

    return Term(name="repo", coef=coef, in_advantage=in_advantage)


def repo_r(settings: RepoSettings) -> Term:
    """The term of REPO-R; it reshapes the advantages of each minibatch by the learner, and has no loss."""
    coef = settings.repo_r_coef

    def by_learner(
        dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, zeta: float
    ) -> Tensor:
        return reshaped_r(advantages, dist.gather(batch.slots), batch.valid, zeta)

    return Term(
        name="repo_r",
        coef=coef,
        by_learner=by_learner,
        # Its weight is among those that are logged where it is on.
        coef_name="repo_r_coef" if coef > 0 else None,
        setting="repo_r_coef",
    )


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
    entropy = legal_entropy(batch.old_legal_logprobs)
    if advantages.ndim > entropy.ndim:  # several samples of a state
        entropy = entropy.unsqueeze(-1)
    shaped = advantages - coef * (batch.old_logprobs + entropy)
    return torch.where(batch.valid, shaped, 0.0)


@torch.no_grad()
def reshaped_r(advantages: Tensor, logprobs: Tensor, valid: Tensor, zeta: float) -> Tensor:
    """`[N, K]` A max(0, 1 - zeta l) where A > 0, A max(0, 1 + zeta l) where A < 0: REPO-R. Invalid samples get 0.

    l <= 0 is the *latest* policy's log-probability: with zeta > 0 an unlikely good move is raised more and an
    unlikely bad one lowered less, with zeta < 0 it is the other way round. The bound 0 is part of the
    definition: an advantage keeps its sign. arXiv:2603.11682, appendix D.2, with beta = zeta |A| and l in the
    place of l + H; read in SkyRL's example `repo_r` (its README and script), not in the paper.

    Args:
        advantages: `[N, K]`.
        logprobs: `[N, K]` log-probabilities of the current learner, nats.
        valid: bool `[N, K]`; what other samples hold, NaN included, is never looked at.
        zeta: per nat; its sign says whether entropy is raised or lowered.
    """
    factor = (1.0 - zeta * advantages.sign() * logprobs).clamp(min=0.0)
    return torch.where(valid, advantages * factor, 0.0)
