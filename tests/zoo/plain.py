"""REINFORCE in as few words as possible: what the tests' own algorithms change a part of."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from torch import Tensor

from algorithms.core.advantages import group_relative
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import sample_mean, score_function


@dataclasses.dataclass(frozen=True)
class Plain:
    """The score function on rewards less their group's mean."""

    name: ClassVar[str] = "plain"
    group_size: int = 4
    update_epochs: int = 1

    def needs(self) -> Needs:
        return Needs()

    def controls(self) -> Controls:
        return Controls()

    def advantages(self, batch: RolloutBatch) -> Tensor:
        return group_relative(batch.rewards, batch.valid, batch.group_axis, "none")

    def weights(self, batch: RolloutBatch) -> Tensor:
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Any
    ) -> PolicyLoss:
        return PolicyLoss(score_function(dist.gather(batch.slots), advantages))
