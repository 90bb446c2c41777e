"""Lp-Reg against its definition, written anew in NumPy (float64)."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from algorithms.core.batch import FlatBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.lp_reg import LpReg, lp_reg, protected, proxy
from algorithms.testing.cases import noise_like, random_case
from tests.regularization.regularizer_cases import flat_batch

Array = NDArray[np.float64]


def softmax(logits: Array, legal: NDArray[np.bool_], temperature: float) -> Array:
    scaled = np.where(legal, logits / temperature, -np.inf)
    exponents = np.exp(scaled - scaled.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def filtered(probs: Array, min_p: float) -> Array:
    kept = np.where(probs >= min_p * probs.max(-1, keepdims=True), probs, 0.0)
    return kept / kept.sum(-1, keepdims=True)


def definition(
    algorithm: LpReg, logits: Array, old_logits: Array, advantages: Array, batch: FlatBatch
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """(`[N, K]` losses, `[N, L]` gradient of their sum, which samples are protected), by formula."""
    legal, slots, valid = batch.legal.numpy(), batch.slots.numpy(), batch.valid.numpy()
    probs = softmax(logits, legal, batch.temperature)
    old = softmax(old_logits, legal, batch.temperature)
    near = filtered(old, algorithm.min_p)
    bad = [tuple(at) for at in np.argwhere(valid & (advantages < 0))]
    bad.sort(key=lambda at: probs[at[0], slots[at]])
    looked_at = max(1, int(algorithm.lp_fraction * len(bad))) if algorithm.lp_fraction else 0
    losses, gradient = np.zeros(slots.shape), np.zeros_like(probs)
    chosen = np.zeros(slots.shape, dtype=bool)
    for n, k in np.argwhere(valid):
        move, a = slots[n, k], advantages[n, k]
        pi, mu, target = probs[n, move], old[n, move], near[n, move]
        ratio = pi / mu
        if (n, k) in bad[:looked_at] and pi < target:
            chosen[n, k] = True
            k3 = target / pi - 1 - math.log(target / pi)
            losses[n, k] = -ratio * a + algorithm.lp_coef * min(k3, 10.0)
            weight = -ratio * a + algorithm.lp_coef * (1 - target / pi) * (k3 < 10)
        else:
            clipped = min(max(ratio, 1 - algorithm.clip_range), 1 + algorithm.clip_range_high)
            losses[n, k] = max(-ratio * a, -clipped * a)
            weight = -ratio * a * (-ratio * a >= -clipped * a)
        one_hot = np.arange(probs.shape[1]) == move
        gradient[n] += weight * (one_hot - probs[n]) / batch.temperature
    return losses, gradient, chosen


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([0.0, 0.5, 2.0]),
    fraction=st.sampled_from([0.0, 0.01, 0.2, 1.0]),
    min_p=st.sampled_from([0.02, 0.3, 1.0]),
    clip=st.sampled_from([(0.2, 0.28), (1.0, 9.0)]),
)
def test_loss_and_gradient_are_those_of_the_definition(
    seed: int, size: float, fraction: float, min_p: float, clip: tuple[float, float]
) -> None:
    low, high = clip
    algorithm = LpReg(
        lp_fraction=fraction, lp_coef=0.7, min_p=min_p, clip_range=low, clip_range_high=high
    )
    case = random_case(algorithm, seed=seed, dtype=torch.float64)
    valid = case.flat.valid.clone()
    valid[0, 0], valid[3] = False, False
    flat = dataclasses.replace(case.flat, valid=valid)
    advantages = case.advantages()
    logits = (case.logits + size * noise_like(case.logits)).requires_grad_()
    loss = algorithm.policy_loss(case.dist(logits), flat, advantages, algorithm.controls()).loss
    (gradient,) = torch.autograd.grad(torch.where(valid, loss, 0.0).sum(), logits)
    losses, expected, _ = definition(
        algorithm, logits.detach().numpy(), case.logits.numpy(), advantages.numpy(), flat
    )
    np.testing.assert_allclose(loss[valid].detach(), losses[valid.numpy()], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-10, atol=1e-10)


def test_a_hand_computed_case() -> None:
    # Old policy .5, .3, .196, .004: with min_p .02 the last, below .01, is dropped; the kept mass is .996.
    old = torch.tensor([[0.5, 0.3, 0.196, 0.004]], dtype=torch.float64).log()
    near = proxy(old, 0.02)
    kept = [0.5 / 0.996, 0.3 / 0.996, 0.196 / 0.996, 0.0]
    assert near.exp()[0].tolist() == pytest.approx(kept)
    # The learner has let the third fall to .05 and the fourth to .001; both did badly.
    learner = torch.tensor([[0.6, 0.349, 0.05, 0.001]], dtype=torch.float64).log()
    legal, slots = torch.ones(1, 4, dtype=torch.bool), torch.tensor([[2, 3, 0]])
    batch = flat_batch(old, legal, slots, temperature=1.0)
    dist = MaskedCategorical(learner, legal, 1.0)
    advantages = torch.tensor([[-0.4, -0.4, 0.8]], dtype=torch.float64)
    algorithm = LpReg(lp_fraction=1.0, lp_coef=0.5)
    loss = algorithm.policy_loss(dist, batch, advantages, algorithm.controls()).loss[0].tolist()
    target = 0.196 / 0.996 / 0.05
    assert loss[0] == pytest.approx(0.4 * 0.05 / 0.196 + 0.5 * (target - 1 - math.log(target)))
    assert loss[1] == pytest.approx(0.4 * 0.001 / 0.004)  # dropped by the proxy
    assert loss[2] == pytest.approx(-0.8 * 0.6 / 0.5)
    # One of two, the least likely, is looked at: the fourth, which the proxy has dropped.
    one = dataclasses.replace(algorithm, lp_fraction=0.5)
    loss = one.policy_loss(dist, batch, advantages, one.controls()).loss[0].tolist()
    assert loss[0] == pytest.approx(0.4 * 0.05 / 0.196)


def test_invalid_samples_and_good_ones_are_never_protected_whatever_they_hold() -> None:
    logprobs = torch.tensor([[-5.0, -4.0, -3.0, torch.nan]])
    near = torch.tensor([[-1.0, -1.0, -1.0, torch.nan]])
    advantages = torch.tensor([[1.0, -1.0, -1.0, torch.nan]])
    valid = torch.tensor([[True, True, True, False]])
    found = protected(logprobs, near, advantages, valid, 1.0)
    assert found.tolist() == [[False, True, True, False]]
    assert protected(logprobs, near, advantages, valid, 0.01).sum() == 1  # at least one
    assert not protected(logprobs, near, advantages, valid, 0.0).any()
    assert not protected(logprobs, near, advantages, torch.zeros_like(valid), 1.0).any()


def test_a_move_far_below_the_proxy_costs_no_more_than_the_bound_and_has_a_finite_gradient() -> (
    None
):
    logprobs = torch.tensor([[-300.0, -3.0]], requires_grad=True)
    everything = torch.ones(1, 2, dtype=torch.bool)
    given_ = torch.full((1, 2), -2.0), torch.zeros(1, 2), torch.full((1, 2), -1.0), everything
    loss = lp_reg(logprobs, *given_, 1.0, 1.0, 9.0)
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert loss[0].tolist() == pytest.approx([10.0, math.exp(2) - 3])
    assert gradient[0].tolist() == pytest.approx([0.0, 1 - math.exp(2)])
