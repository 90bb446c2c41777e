"""Exact: the policy gradient over all legal moves, without sampling noise."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Tensor

from algorithms.core.advantages import ExactScale, exact
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import Epochs, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import expected_advantage, state_sum


@dataclasses.dataclass(frozen=True)
class Exact:
    """All-action policy gradient: one ply deep, every legal move scored.

    The gradient of `core.losses.expected_advantage`; its source is there.

    Attributes:
        update_epochs: passes over each batch; the advantages stay those of the first.
        advantage_scale: divide by the standard deviation of the rewards of all legal moves, each
            counted once (`group`), or by nothing (`none`).
    """

    name: ClassVar[str] = "exact"
    update_epochs: Epochs = 1
    advantage_scale: ExactScale = "none"

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def group_size(self) -> int:
        """1, and no setting: a state's samples are its legal moves."""
        return 1

    def needs(self) -> Needs:
        """The score of every legal move."""
        return Needs(all_moves=True, reward_units=self.advantage_scale == "none")

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
        """`[N, K]` each move's share of minus the expected advantage, to minimise."""
        return PolicyLoss(expected_advantage(dist.gather(batch.slots), advantages))
