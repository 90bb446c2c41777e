"""Passes that are divided among shards give the loss and the gradient of one pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from algorithms import PRESETS
from algorithms.core.algorithm import Critic, Needs
from algorithms.processes import Shards
from algorithms.regularization import Regularizer
from algorithms.updates.learner import Passes, ShardedPasses, WholePasses
from algorithms.updates.training_batch import make_targets, make_training_batch
from algorithms.updates.update import Loss, loss_of
from tests.small import VecOf, make_batch, make_policy
from tests.updates.learners import learner_of
from tests.updates.recording_algorithm import RecordingAlgorithm, critic_and_batch


def loss_on(
    passes: Passes, policy: Any, batch: Any, algorithm: Any, regularizer: Any, rows: slice
) -> Loss:
    """The loss of some states of a batch."""
    learner = learner_of(policy, algorithm, Regularizer(regularizer, batch.temperature))
    learner.passes = passes
    targets = make_targets(algorithm, learner.regularizer, batch)
    training = make_training_batch(algorithm, batch, targets, torch.Generator().manual_seed(0))
    minibatch = training.select(torch.arange(training.flat.num_states)[rows])
    return loss_of(learner, minibatch)


def step(passes: Passes, policy: Any, batch: Any, algorithm: Any, regularizer: Any, rows: slice) -> Any:  # fmt: skip
    """(loss, gradient in one axis) of some states of a batch."""
    loss = loss_on(passes, policy, batch, algorithm, regularizer, rows).total
    policy.zero_grad(set_to_none=True)
    passes.backward(policy, loss)
    gradients = [
        torch.zeros(1) if p.grad is None else p.grad.flatten() for p in policy.parameters()
    ]
    return loss.detach(), torch.cat(gradients)


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("name", ["grpo", "rloo", "delightful_pg", "clip_cov", "kl_cov", "repo"])
def test_the_gradient_is_that_of_one_pass(name: str, count: int) -> None:
    algorithm, regularizer = PRESETS[name]
    batch, policy = make_batch(), make_policy().double()
    whole = step(WholePasses(), policy, batch, algorithm, regularizer, slice(None))
    divided = step(ShardedPasses(Shards(count)), policy, batch, algorithm, regularizer, slice(None))
    assert whole[1].abs().max() > 0
    torch.testing.assert_close(divided, whole, rtol=1e-6, atol=1e-9)


def test_values_and_normalised_advantages_are_those_of_the_whole_minibatch(vec_of: VecOf) -> None:
    policy, batch = critic_and_batch(vec_of)
    algorithm = RecordingAlgorithm(Needs(critic=Critic(vf_coef=0.7), normalize_advantages=True))
    regularizer = PRESETS["grpo"][1]
    whole = step(WholePasses(), policy, batch, algorithm, regularizer, slice(None))
    divided = step(ShardedPasses(Shards(3)), policy, batch, algorithm, regularizer, slice(None))
    torch.testing.assert_close(divided, whole, rtol=1e-4, atol=1e-6)


def test_the_terms_that_are_shown_add_up_to_the_loss(vec_of: VecOf) -> None:
    policy, batch = critic_and_batch(vec_of)
    algorithm = RecordingAlgorithm(Needs(critic=Critic(vf_coef=0.7)))
    loss = loss_on(WholePasses(), policy, batch, algorithm, PRESETS["grpo"][1], slice(0, 3))
    terms = loss.terms()
    assert {"policy", "value"} < set(terms)
    torch.testing.assert_close(sum(terms.values()), loss.total)


def test_a_minibatch_with_fewer_states_than_shards_is_learned_from() -> None:
    algorithm, regularizer = PRESETS["grpo"]
    batch, policy = make_batch(), make_policy().double()
    whole = step(WholePasses(), policy, batch, algorithm, regularizer, slice(0, 2))
    divided = step(ShardedPasses(Shards(5)), policy, batch, algorithm, regularizer, slice(0, 2))
    torch.testing.assert_close(divided, whole, rtol=1e-6, atol=1e-9)
