"""Losses by formula in plain NumPy, for tests that compare an algorithm with its definition; no code of the project."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import RolloutBatch, blank_batch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import weighted_sum

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def log_softmax(logits: Array) -> Array:
    """Log-probabilities along the last axis."""
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def by_group(
    advantages: Callable[[list[float]], list[float]], rewards: Array, valid: Mask, axis: int
) -> Array:
    """`advantages` of the valid members of each group, put back in their places; 0 elsewhere."""
    found = np.zeros_like(rewards)
    moved, kept, paid = (np.moveaxis(each, axis, -1) for each in (found, valid, rewards))
    for place in np.ndindex(moved.shape[:-1]):
        members = np.flatnonzero(kept[place])
        if len(members):
            moved[place][members] = advantages([float(paid[place][i]) for i in members])
    return found


def rollout(
    old: Array, slots: NDArray[Any], rewards: Array, valid: Mask | None = None
) -> RolloutBatch:
    """A float64 rollout of form `positions`, one ply of each state, all moves legal, at temperature 1.

    Args:
        old: `[N, L]` logits of the policy that sampled.
        slots: `[N, K]` the samples.
        rewards: `[N, K]`.
        valid: `[N, K]`; None: all.
    """
    states, samples = slots.shape
    legal_logprobs = torch.from_numpy(log_softmax(old))[:, None]
    taken = torch.from_numpy(slots)[:, None]
    blank = blank_batch("positions", (states, 1), samples=samples, num_legal=old.shape[1])
    return dataclasses.replace(
        blank,
        slots=taken,
        actions=taken,
        old_logprobs=legal_logprobs.gather(-1, taken),
        old_legal_logprobs=legal_logprobs,
        rewards=torch.from_numpy(rewards)[:, None],
        valid=blank.valid if valid is None else torch.from_numpy(valid)[:, None],
    )


def loss_of(algorithm: Algorithm, batch: RolloutBatch, logits: Array) -> tuple[float, Array]:
    """The algorithm's loss of a rollout, as the update adds it up, and its gradient at these logits."""
    leaf = torch.from_numpy(logits).clone().requires_grad_()
    flat = batch.flat()
    dist = MaskedCategorical(leaf, flat.legal, batch.temperature)
    advantages = batch.flatten(algorithm.advantages(batch))
    each = algorithm.policy_loss(dist, flat, advantages, algorithm.controls()).loss
    loss = weighted_sum(each, batch.flatten(algorithm.weights(batch)), flat.valid)
    (gradient,) = torch.autograd.grad(loss, leaf)
    return float(loss.detach()), gradient.numpy()


@dataclasses.dataclass(frozen=True)
class Samples:
    """Random samples of some states, drawn by one policy and looked at by another.

    Attributes:
        old, logits: `[N, L]` of the policy that sampled, and of the learner.
        slots: `[N, K]`.
        rewards: `[N, K]` of 0 and 1.
        valid: `[N, K]`.
    """

    old: Array
    logits: Array
    slots: NDArray[Any]
    rewards: Array
    valid: Mask


def samples(seed: int, size: int, *, rate: float = 0.4, moved: float = 0.4) -> Samples:
    """Five states with six moves each; one sample in five is not valid.

    Args:
        seed: of all.
        size: samples of a state.
        rate: share of successes.
        moved: how far the learner is from the sampler.
    """
    generator = np.random.default_rng(seed)
    old = generator.normal(size=(5, 6))
    return Samples(
        old=old,
        logits=old + moved * generator.normal(size=old.shape),
        slots=generator.integers(0, 6, (5, size)),
        rewards=(generator.random((5, size)) < rate).astype(float),
        valid=generator.random((5, size)) < 0.8,
    )


def outcomes(old: Array, size: int) -> Iterator[tuple[NDArray[Any], float]]:
    """Every way to draw `size` moves from one policy `[L]`, with its probability."""
    logprobs = log_softmax(old)
    for drawn in itertools.product(range(len(old)), repeat=size):
        slots = np.array(drawn)
        yield slots, float(np.exp(logprobs[slots].sum()))


def expected_gradient(
    algorithm: Algorithm, old: Array, paid: Array, size: int
) -> tuple[Array, Array]:
    """(Expected gradient of the loss over every draw, gradient of the success rate), at the logits `[L]` that sample.

    Args:
        algorithm: with `size` samples.
        old: `[L]`.
        paid: `[L]` the reward of each move.
        size: samples.
    """
    total = np.zeros_like(old)
    for slots, chance in outcomes(old, size):
        batch = rollout(old[None], slots[None], paid[slots][None])
        total += chance * loss_of(algorithm, batch, old[None])[1][0]
    probs = np.exp(log_softmax(old))
    return total, probs * (paid - probs @ paid)
