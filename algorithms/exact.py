"""Exact: the policy gradient over all legal moves, without sampling noise."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import ExactScale, exact
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import Epochs, Positive, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import expected_advantage, state_sum


def forward_kl(logprobs: Tensor, advantages: Tensor, valid: Tensor, temperature: float) -> Tensor:
    """`[N, K]` loss to minimise: -p(a) log pi(a), p = softmax(advantages / temperature); 0 where not valid.

    Added over all legal moves of a state it is KL(p || pi) and a constant, whose gradient in the logits is pi - p: a
    good move is found however rarely the policy plays it. An entropy bonus of the size `temperature` minimises
    KL(pi || p), whose gradient has the factor pi(a) (Chan et al. 2021, arXiv:2107.08285).

    Args:
        logprobs: `[N, K]` of all legal moves.
        advantages: `[N, K]` reward units; what is added to all moves of a state changes nothing.
        valid: bool `[N, K]`; a state without a valid move adds 0.
        temperature: > 0, reward units.
    """
    # A finite floor, so that a state without moves has no NaN.
    tilted = torch.where(
        valid, advantages.detach() / temperature, torch.finfo(advantages.dtype).min
    )
    return torch.where(valid, -tilted.softmax(-1) * logprobs, 0.0)


@dataclasses.dataclass(frozen=True)
class Exact:
    """All-action policy gradient: one ply deep, every legal move scored.

    The gradient of `core.losses.expected_advantage`, or of `forward_kl`; their sources are there.

    Attributes:
        update_epochs: passes over each batch; the advantages stay those of the first.
        advantage_scale: divide by the standard deviation of the rewards of all legal moves, each
            counted once (`group`), or by nothing (`none`).
        forward_kl_temperature: None: the expected reward is maximised. A number: the policy is fitted to softmax(reward
            / it) by the forward KL, which finds moves that it hardly plays.
    """

    name: ClassVar[str] = "exact"
    update_epochs: Epochs = 1
    advantage_scale: ExactScale = "none"
    forward_kl_temperature: Positive | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def group_size(self) -> int:
        """1, and no setting: a state's samples are its legal moves."""
        return 1

    def needs(self) -> Needs:
        """The score of every legal move."""
        fits = self.forward_kl_temperature is not None
        in_reward_units = self.advantage_scale == "none" and not fits
        return Needs(all_moves=True, reward_units=in_reward_units, fits_rewards=fits)

    def controls(self) -> Controls:
        """No bounds."""
        return Controls()

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """R(a) - sum_b pi_old(b) R(b), scaled; shaped like `batch.rewards`."""
        return exact(batch.rewards, batch.old_logprobs, batch.valid, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: states weigh the same; the loss holds the probability of each of their moves."""
        return state_sum(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` each move's share of minus the expected advantage, or of the forward KL, to minimise."""
        logprobs, temperature = dist.gather(batch.slots), self.forward_kl_temperature
        if temperature is None:
            return PolicyLoss(expected_advantage(logprobs, advantages))
        return PolicyLoss(forward_kl(logprobs, advantages, batch.valid, temperature))
