"""Delightful PG against an enumeration of its definition that shares no code with it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import GateScale
from algorithms.delightful_pg import DelightfulPG
from tests.regularization.regularizer_cases import flat_batch
from tests.zoo.by_state import gate_of

Array = NDArray[np.float64]
SAMPLES = 3


def log_softmax(logits: Array, legal: NDArray[np.bool_], temperature: float) -> Array:
    """Log-probabilities of the legal moves; 0 on the others, which nobody reads."""
    scaled = logits[legal] / temperature
    logprobs = np.zeros_like(logits)
    logprobs[legal] = scaled - scaled.max() - np.log(np.exp(scaled - scaled.max()).sum())
    return logprobs


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def definition(
    logits: Array,
    legal: NDArray[np.bool_],
    rewards: Array,
    temperature: float,
    eta: float,
    lam: float,
    gate_scale: str,
) -> Array:
    """E[-gate A grad log pi] over all outcomes of 3 moves drawn from one position, by formula."""
    logprobs = log_softmax(logits, legal, temperature)
    probs = np.where(legal, np.exp(logprobs), 0.0)
    total = np.zeros_like(logits)
    for outcome in itertools.product(np.flatnonzero(legal), repeat=SAMPLES):
        drawn = list(outcome)
        chance = np.prod(probs[drawn])
        advantages = rewards[drawn] - rewards[drawn].mean()
        std = math.sqrt(float((advantages**2).mean()))  # their mean is 0
        for move, advantage in zip(drawn, advantages, strict=True):
            delight = advantage * -logprobs[move]
            unit = std if gate_scale == "std" else 1.0
            equal = len({rewards[i] for i in drawn}) == 1 and gate_scale == "std"
            gate = 0.5 if equal else sigmoid((delight - lam) / (eta * unit))
            score = -probs / temperature
            score[move] += 1 / temperature
            total += chance * -(gate * advantage * score) / SAMPLES
    return total


def expected_gradient(
    algorithm: DelightfulPG,
    logits: Array,
    legal: NDArray[np.bool_],
    rewards: Array,
    temperature: float,
) -> Array:
    """The same expectation through the algorithm's own advantages, loss and autograd."""
    mask = torch.from_numpy(legal)[None]
    total = np.zeros_like(logits)
    for outcome in itertools.product(np.flatnonzero(legal), repeat=SAMPLES):
        slots = torch.tensor([outcome])
        learner = torch.from_numpy(logits)[None].clone().requires_grad_()
        batch = flat_batch(learner, mask, slots, temperature=temperature)
        drawn = torch.from_numpy(rewards)[slots]
        advantages = drawn - drawn.mean(-1, keepdim=True)
        dist = MaskedCategorical(learner, mask, temperature)
        loss = algorithm.policy_loss(dist, batch, advantages, algorithm.controls()).loss.mean()
        (gradient,) = torch.autograd.grad(loss, learner)
        total += float(batch.old_logprobs.sum().exp()) * gradient[0].numpy()
    return total


@given(
    seed=st.integers(0, 2**31),
    temperature=st.sampled_from([0.7, 1.0, 1.3]),
    eta=st.sampled_from([0.3, 1.0, 4.0]),
    lam=st.sampled_from([0.0, 0.4]),
    gate_scale=st.sampled_from(["none", "std"]),
)
@settings(max_examples=25)
def test_the_expected_gradient_is_that_of_the_definition(
    seed: int, temperature: float, eta: float, lam: float, gate_scale: GateScale
) -> None:
    generator = np.random.default_rng(seed)
    logits, rewards = generator.normal(size=(2, 4))
    legal = np.array([True, True, False, True])
    algorithm = DelightfulPG(group_size=SAMPLES, eta=eta, lam=lam, gate_scale=gate_scale)
    found = expected_gradient(algorithm, logits, legal, rewards, temperature)
    expected = definition(logits, legal, rewards, temperature, eta, lam, gate_scale)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)
    assert found[2] == 0


def test_the_gate_uses_the_learner_s_surprisal_and_not_the_behaviour_s() -> None:
    logits = torch.zeros(1, 2, dtype=torch.float64)
    legal = torch.ones(1, 2, dtype=torch.bool)
    batch = flat_batch(logits, legal, torch.tensor([[0, 1]]), temperature=1.0)
    moved = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    dist = MaskedCategorical(moved, legal, 1.0)
    advantages = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    expected = torch.sigmoid(advantages * -dist.gather(batch.slots))
    torch.testing.assert_close(gate_of(DelightfulPG(), dist, batch, advantages), expected)
    # std(A) is 1
    scaled = gate_of(DelightfulPG(gate_scale="std"), dist, batch, advantages)
    torch.testing.assert_close(scaled, expected)
