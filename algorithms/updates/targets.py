"""The targets of an update: advantages, weights and returns, computed from a rollout's rewards."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import RolloutBatch
from algorithms.regularization import Regularizer


@dataclasses.dataclass(frozen=True)
class Targets:
    """The targets of an update, each shaped like `batch.rewards`.

    Attributes:
        advantages: as the regulariser shaped them; of an algorithm that asks for
            `Needs.normalize_advantages`, as they are before normalisation and shaping, which are the
            minibatch's.
        weights: each sample's share of the policy loss.
        returns: targets of the critic, reward units; None without a critic.
    """

    advantages: Tensor
    weights: Tensor
    returns: Tensor | None = None


@torch.no_grad()
def make_targets(algorithm: Algorithm, regularizer: Regularizer, batch: RolloutBatch) -> Targets:
    """Advantages, weights and returns of one rollout; `batch.rewards` stay raw.

    The returns are the algorithm's own advantages (of rewards that the regulariser may have shaped)
    plus the values; what the regulariser does to advantages (REPO) is no part of them: the critic
    learns what the rewards pay.

    Raises:
        ValueError: rewards that are not finite, a critic's algorithm on a batch without values, or
            what `algorithm.advantages` refuses.
    """
    batch.require_finite_rewards()
    raw = algorithm.advantages(dataclasses.replace(batch, rewards=regularizer.shape_reward(batch)))
    returns = None
    if algorithm.needs().critic is not None:
        if batch.values is None:
            raise ValueError(
                f"{algorithm.name} learns a critic and the batch has no values: sample it with a "
                "policy built with critic=True"
            )
        returns = raw + (batch.values.unsqueeze(-1) if batch.form == "positions" else batch.values)
    by_minibatch = algorithm.needs().normalize_advantages
    return Targets(
        advantages=raw if by_minibatch else regularizer.shape_advantage(raw, batch),
        weights=algorithm.weights(batch),
        returns=returns,
    )
