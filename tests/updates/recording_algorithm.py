"""An algorithm that asks for anything, and one update with it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import sample_mean, score_function
from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.rollouts.collect import start_rollout
from algorithms.updates.training_batch import make_targets
from algorithms.updates.update import update
from tests.rollouts.play import play_games, play_positions
from tests.small import CPU, VecOf
from tests.updates.learners import learner_of

NOTHING = Needs()


@dataclasses.dataclass(frozen=True)
class RecordingAlgorithm:
    """The score function on the raw rewards, with any needs; remembers what it was given."""

    name: ClassVar[str] = "asking"
    asked: Needs = NOTHING
    update_epochs: int = 1
    group_size: int = 4
    target_kl: float = math.inf
    gate_at: float | None = None
    given: list[FlatBatch] = dataclasses.field(default_factory=list, compare=False)

    def needs(self) -> Needs:
        return self.asked

    def controls(self) -> Controls:
        return Controls(target_kl=self.target_kl)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        return torch.where(batch.valid, batch.rewards, 0.0)

    def weights(self, batch: RolloutBatch) -> Tensor:
        return sample_mean(batch.valid)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        self.given.append(batch)
        gate = None if self.gate_at is None else torch.full_like(advantages, self.gate_at)
        return PolicyLoss(score_function(dist.gather(batch.slots), advantages), gate)


def run(policy: PolicyNet, batch: RolloutBatch, algorithm: Any, **changes: Any) -> dict[str, float]:
    regularizer = changes.pop("regularizer", None)
    regularizer = regularizer or Regularizer(RegularizerConfig(ent_coef=0.1), batch.temperature)
    targets = changes.pop("targets", None) or make_targets(algorithm, regularizer, batch)
    keep_bad = changes.pop("keep_bad", None)
    return update(learner_of(policy, algorithm, regularizer, **changes), batch, targets, keep_bad)


def flat_weights(policy: PolicyNet) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in policy.parameters()])


def critic_and_batch(vec_of: VecOf, form: str = "positions") -> tuple[PolicyNet, RolloutBatch]:
    config = NetworkConfig(network="resnet", channels=8, blocks=1)
    policy = build_policy(config, seed=0, device=CPU, critic=True).eval()
    assert policy.value_head is not None
    with torch.no_grad():
        last: Any = policy.value_head[-1]
        last.weight.normal_(0.0, 0.1, generator=torch.Generator().manual_seed(1))
    vec = vec_of(4)
    state = start_rollout(vec, 0)
    if form == "positions":
        return policy, play_positions(vec, policy, state)[0]
    return policy, play_games(vec, policy)
