"""Losses and gradients in plain numpy, state by state and sample by sample; nothing of it is the project's code."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.core.algorithm import Algorithm, Controls
from algorithms.core.batch import FlatBatch
from algorithms.core.distribution import MaskedCategorical
from tests.regularization.regularizer_cases import flat_batch, policy

Array = NDArray[np.float64]
LEGAL = (6, 5, 3, 2, 1, 4)
SAMPLES = 3


@dataclasses.dataclass(frozen=True)
class State:
    """One state: log-probabilities of its legal moves, and which were drawn and count."""

    logprobs: list[float]
    old_logprobs: list[float]
    slots: list[int]
    valid: list[bool]

    @property
    def entropy(self) -> float:
        return -sum(math.exp(each) * each for each in self.logprobs)

    @property
    def old_entropy(self) -> float:
        return -sum(math.exp(each) * each for each in self.old_logprobs)

    def log_ratio(self, sample: int) -> float:
        slot = self.slots[sample]
        return self.logprobs[slot] - self.old_logprobs[slot]


def log_softmax(row: list[float]) -> list[float]:
    total = math.log(sum(math.exp(each) for each in row))
    return [each - total for each in row]


def made_up(seed: int, moved: float) -> tuple[Tensor, FlatBatch, Tensor]:
    """(learner's logits requiring a gradient, batch, advantages): 6 states, 3 samples, two of them not valid.

    Args:
        seed: of everything.
        moved: standard deviation of the learner's logits about those that sampled.
    """
    generator = torch.Generator().manual_seed(seed)
    old, noise = torch.randn(2, len(LEGAL), 6, generator=generator, dtype=torch.float64)
    legal = torch.arange(6) < torch.tensor(LEGAL).unsqueeze(-1)
    slots = torch.rand(len(LEGAL), SAMPLES, generator=generator) * torch.tensor(LEGAL).unsqueeze(-1)
    advantages = torch.randn(len(LEGAL), SAMPLES, generator=generator, dtype=torch.float64)
    valid = torch.ones(len(LEGAL), SAMPLES, dtype=torch.bool)
    valid[1, 2] = valid[2, 0] = False
    batch = flat_batch(old, legal, slots.long(), valid=valid)
    uniforms = torch.rand(len(LEGAL), SAMPLES, generator=generator)
    batch = dataclasses.replace(batch, uniforms=uniforms)
    return (old + moved * noise).requires_grad_(), batch, advantages


def states_of(logits: Tensor, batch: FlatBatch) -> list[State]:
    """The learner's states of a batch; log-probabilities are computed anew from the logits."""
    states = []
    for n in range(batch.num_states):
        legal = [i for i, action in enumerate(batch.legal_ids[n].tolist()) if action >= 0]
        row = [logits[n, i].item() / batch.temperature for i in legal]
        old = [batch.old_legal_logprobs[n, i].item() for i in legal]
        states.append(
            State(log_softmax(row), old, batch.slots[n].tolist(), batch.valid[n].tolist())
        )
    return states


def clipped(log_ratio: float, advantage: float, low: float, high: float) -> tuple[float, float]:
    """(-min(r A, clip(r) A), its derivative by log pi); `low` and `high` bound r itself."""
    ratio = math.exp(log_ratio)
    if advantage > 0 and ratio > high:
        return -high * advantage, 0.0
    if advantage < 0 and ratio < low:
        return -low * advantage, 0.0
    return -ratio * advantage, -ratio * advantage


def gradient_of(states: list[State], slopes: Array, temperature: float, width: int = 6) -> Array:
    """`[N, L]` gradient by the logits of a sum of losses with these derivatives by log pi, `[N, K]`."""
    total = np.zeros((len(states), width))
    for n, state in enumerate(states):
        probs = [math.exp(each) for each in state.logprobs]
        for k, slot in enumerate(state.slots):
            for i, prob in enumerate(probs):
                total[n, i] += slopes[n, k] * ((i == slot) - prob) / temperature
    return total


def loss_and_gradient(
    algorithm: Algorithm,
    logits: Tensor,
    batch: FlatBatch,
    advantages: Tensor,
    controls: Controls | None = None,
) -> tuple[Tensor, Tensor]:
    """(`[N, K]` the algorithm's losses, 0 where not valid; `[N, L]` the gradient of their sum)."""
    controls = controls or algorithm.controls()
    loss = algorithm.policy_loss(policy(logits, batch), batch, advantages, controls).loss
    kept = torch.where(batch.valid, loss, 0.0)
    (gradient,) = torch.autograd.grad(kept.sum(), logits)
    return kept.detach(), gradient


def gate_of(
    algorithm: Algorithm, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor
) -> Any:
    """`[N, K]` the gate that the algorithm's loss reports; None where it has none."""
    return algorithm.policy_loss(dist, batch, advantages, algorithm.controls()).gate


def assert_same(found: tuple[Tensor, Tensor], expected: tuple[Any, Any]) -> None:
    """Loss and gradient agree to 1e-10."""
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-10, atol=1e-13)
