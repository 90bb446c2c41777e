"""Delightful policy gradient: the score function, gated by how delightful a move was."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Tensor

from algorithms.core.advantages import Credit, group_advantages
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import Epochs, Group, Share, check_fields, require_between
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import GateScale, delight, sample_mean, score_function


@dataclasses.dataclass(frozen=True)
class DelightfulPG:
    """Delightful Policy Gradient (arXiv:2603.14608), as in the author's release; see core/losses.py.

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; its gate and gradient use the current policy alone.
        eta: softness of the gate, > 0; larger tends to half the plain gradient.
        gate_scale: eta is in the advantages' own unit (`none`, as the author has it) or in units of
            their standard deviation in the minibatch (`std`: a gate several times as sharp here).
        lam: the delight that lets half of the gradient through, in the advantages' unit x nats.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "delightful_pg"
    group_size: Group = 8
    update_epochs: Epochs = 1
    eta: float = 1.0
    gate_scale: GateScale = "none"
    lam: float = 0.0
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        require_between("eta", self.eta, 1e-6, float("inf"))
        require_between("lam", self.lam, float("-inf"), float("inf"))

    def needs(self) -> Needs:
        """Nothing beyond sampled moves and rewards."""
        return Needs(group_scale="none")

    def controls(self) -> Controls:
        """No bounds."""
        return Controls()

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, "none")

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` gated score-function loss to minimise; unlikely moves that did well pass most."""
        logprobs = dist.gather(batch.slots)
        eta, lam, scale = self.eta, self.lam, self.gate_scale
        gate = delight(logprobs, advantages, batch.valid, eta=eta, lam=lam, scale=scale)
        return PolicyLoss(gate * score_function(logprobs, advantages), gate)
