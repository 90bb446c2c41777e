"""Minibatches are unbiased shares of their batch, and coefficients keep their unit in each of them."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from algorithms.core.advantages import normalized
from algorithms.core.algorithm import Controls, Needs, PolicyLoss
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.policy_net import PolicyNet
from algorithms.ppo import PPO
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.updates.training_batch import Targets, make_targets, make_training_batch
from algorithms.updates.update import loss_of
from tests.small import VecOf, make_batch, make_policy
from tests.updates.learners import learner_of
from tests.updates.recording_algorithm import (
    RecordingAlgorithm,
    critic_and_batch,
    flat_weights,
    run,
)


@dataclasses.dataclass(frozen=True)
class LossIsAdvantage(RecordingAlgorithm):
    """Each sample's loss is its advantage, whatever the policy."""

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        return PolicyLoss(advantages + 0.0 * dist.gather(batch.slots))


def games_of(lengths: list[int]) -> RolloutBatch:
    """A batch of games with these numbers of plies, of which only the first game's pay anything."""
    batch = make_batch("games")
    repeats = -(-max(lengths) // batch.rewards.shape[-1])
    longer = {
        field.name: torch.cat([value] * repeats, dim=2)[:1, : len(lengths), : max(lengths)]
        for field in dataclasses.fields(batch)
        if isinstance(value := getattr(batch, field.name), Tensor)
    }
    batch = dataclasses.replace(batch, **longer)
    valid = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    rewards = torch.zeros_like(batch.rewards)
    rewards[0, 0] = 1.0
    return dataclasses.replace(batch, valid=valid[None], rewards=rewards)


def test_minibatches_of_whole_games_are_unbiased_shares_of_the_batch() -> None:
    batch = games_of([1, 9])
    algorithm = LossIsAdvantage(Needs(whole_games=True))
    whole = run(make_policy(), batch, algorithm, minibatch_size=1000)
    parts = run(make_policy(), batch, algorithm, minibatch_size=5)
    assert (whole["train/steps"], parts["train/steps"]) == (1, 2)
    assert whole["train/policy_loss"] == pytest.approx(0.1)  # one of ten plies pays 1
    assert parts["train/policy_loss"] == pytest.approx(0.1)
    assert parts["train/loss"] == pytest.approx(whole["train/loss"], rel=1e-5)
    assert parts["reg/entropy"] == pytest.approx(whole["reg/entropy"], rel=1e-5)


def test_the_gradients_of_whole_games_add_up_to_the_batch_s() -> None:
    batch, moved = games_of([1, 9, 4]), []
    for size in (1000, 1):
        policy = make_policy()
        needs = Needs(whole_games=True, single_step=True)
        metrics = run(policy, batch, RecordingAlgorithm(needs), rate=0.5, minibatch_size=size)
        assert metrics["train/steps"] == 1
        moved.append((flat_weights(policy), metrics["train/loss"]))
    torch.testing.assert_close(moved[0][0], moved[1][0], atol=1e-6, rtol=1e-4)
    assert moved[1][1] == pytest.approx(moved[0][1], rel=1e-4)


def shares(
    coef: float, algorithm: PPO, policy: PolicyNet, batch: RolloutBatch
) -> tuple[Tensor, Tensor]:
    """(the advantages that the loss reads, of those REPO's share), over the whole batch."""
    regularizer = Regularizer(RegularizerConfig(repo_coef=coef), batch.temperature)
    targets: Targets = make_targets(algorithm, regularizer, batch)
    generator = torch.Generator().manual_seed(0)
    training = make_training_batch(algorithm, batch, targets, generator)
    read = loss_of(learner_of(policy, algorithm, regularizer), training).advantages
    raw = batch.flatten(algorithm.advantages(batch))
    scaled = normalized(raw, training.flat.valid) if algorithm.normalize_advantages else raw
    return read, read - scaled


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("coef", [0.03, 0.3, 3.0])
def test_repo_s_coefficient_has_the_unit_of_the_loss_under_normalised_advantages(
    vec_of: VecOf, normalize: bool, coef: float
) -> None:
    policy, batch = critic_and_batch(vec_of)
    algorithm = PPO(group_size=4, gamma=0.0, normalize_advantages=normalize)
    _, once = shares(coef, algorithm, policy, batch)
    legal = batch.old_legal_logprobs.reshape(-1, batch.old_legal_logprobs.shape[-1])
    entropy = torch.distributions.Categorical(logits=legal).entropy()
    centred = batch.flatten(batch.old_logprobs) + entropy[:, None]
    torch.testing.assert_close(once, -coef * centred, rtol=1e-4, atol=1e-6)
    assert float(once.std()) > 0.1 * coef
