"""Clip-Cov and KL-Cov against the authors' definitions, written anew in NumPy (float64)."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from algorithms.clip_cov import ClipCov
from algorithms.core.batch import FlatBatch
from algorithms.core.losses import clip_cov, cut_by_clip
from algorithms.regularization.kl_cov import kl_cov
from algorithms.testing.cases import Case, noise_like, random_case
from tests.zoo.by_state import gate_of

Array = NDArray[np.float64]


def moved(case: Case, size: float) -> Tensor:
    """Logits of a learner that has left the sampler, requiring a gradient."""
    return (case.logits + size * noise_like(case.logits)).requires_grad_()


def log_probabilities(logits: Array, batch: FlatBatch) -> tuple[Array, Array]:
    """(float64 `[N, L]` probabilities, `[N, K]` log-probabilities of the sampled moves)."""
    scaled = np.where(batch.legal.numpy(), logits / batch.temperature, -np.inf)
    exponents = np.exp(scaled - scaled.max(-1, keepdims=True))
    probs = exponents / exponents.sum(-1, keepdims=True)
    return probs, np.log(np.take_along_axis(probs, batch.slots.numpy(), -1))


def gradient_of(weights: Array, probs: Array, batch: FlatBatch) -> Array:
    """Sum over the samples of weights `[N, K]` times the gradient of log pi in the logits, `[N, L]`."""
    found = np.zeros_like(probs)
    for n, k in np.argwhere(batch.valid.numpy()):
        one_hot = np.arange(probs.shape[1]) == int(batch.slots[n, k])
        found[n] += weights[n, k] * (one_hot - probs[n]) / batch.temperature
    return found


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), fraction=st.sampled_from([1e-4, 0.05, 0.3]))
def test_clip_cov_s_loss_and_gradient_are_those_of_the_definition(
    seed: int, fraction: float
) -> None:
    algorithm = ClipCov(clip_fraction=fraction, cov_low=0.1, cov_high=3.0)
    case = random_case(algorithm, seed=seed, dtype=torch.float64)
    logits, advantages, flat = moved(case, 1.5), case.advantages(), case.flat
    loss = algorithm.policy_loss(case.dist(logits), flat, advantages, algorithm.controls()).loss
    (gradient,) = torch.autograd.grad(loss.sum(), logits)

    probs, logprobs = log_probabilities(logits.detach().numpy(), flat)
    a, ratio = advantages.numpy(), np.exp(logprobs - flat.old_logprobs.numpy())
    clipped = -a * np.clip(ratio, 0, 2) > -a * ratio
    covariance = (a - a.mean()) * (logprobs - logprobs.mean()) / a.std()
    assert flat.uniforms is not None
    candidates = np.argwhere((covariance > 0.1) & (covariance < 3.0) & ~clipped).tolist()
    candidates.sort(key=lambda at: float(flat.uniforms[tuple(at)]))  # type: ignore[index]
    kept = np.ones_like(a)
    for at in candidates[: max(1, round(fraction * a.size))]:
        kept[tuple(at)] = 0.0
    np.testing.assert_array_equal(
        gate_of(algorithm, case.dist(logits), flat, advantages).numpy(), kept
    )
    expected = kept * np.maximum(-a * ratio, -a * np.clip(ratio, 0, 2))
    np.testing.assert_allclose(loss.detach().numpy(), expected, rtol=1e-10, atol=1e-10)
    weights = np.where(clipped, 0.0, -kept * a * ratio)
    np.testing.assert_allclose(
        gradient.numpy(), gradient_of(weights, probs, flat), rtol=1e-10, atol=1e-10
    )


def test_a_sample_that_the_clip_has_zeroed_is_not_left_out_in_place_of_another() -> None:
    advantages = torch.tensor([[1.0, 1.0, -1.0, -1.0]], dtype=torch.float64)
    logprobs = torch.tensor([[-0.5, -1.0, -3.0, -3.5]], dtype=torch.float64)
    old = torch.tensor([[-0.5 - math.log(2.1), -1.0, -3.0, -3.5]], dtype=torch.float64)
    valid, uniforms = torch.ones(1, 4, dtype=torch.bool), torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    cut = cut_by_clip(logprobs, old, advantages, 1.0, 1.0)
    assert cut.tolist() == [[True, False, False, False]]  # r = 2.1 with A > 0
    rest = uniforms, 0.25, 0.5, 5.0
    assert clip_cov(logprobs, advantages, valid, *rest).tolist() == [[0.0, 1.0, 1.0, 1.0]]
    assert clip_cov(logprobs, advantages, valid, *rest, cut).tolist() == [[1.0, 0.0, 1.0, 1.0]]
    everything = clip_cov(logprobs, advantages, valid, *rest, torch.ones_like(valid))
    assert everything.tolist() == [[1.0] * 4]


def test_the_clip_cuts_by_the_sign_of_the_advantage() -> None:
    ratios = torch.tensor([[1.3, 1.3, 0.7, 0.7, 1.3]], dtype=torch.float64)
    advantages = torch.tensor([[1.0, -1.0, 1.0, -1.0, 0.0]], dtype=torch.float64)
    cut = cut_by_clip(ratios.log(), torch.zeros_like(ratios), advantages, 0.2, 0.2)
    assert cut.tolist() == [[True, False, False, True, False]]


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), fraction=st.sampled_from([2e-4, 2e-3, 0.1]))
def test_kl_cov_takes_the_covariance_with_the_learner_as_it_is_now(
    seed: int, fraction: float
) -> None:
    case = random_case(ClipCov(), seed=seed, dtype=torch.float64)
    logits, advantages, flat = moved(case, 1.0), case.advantages(), case.flat
    value = kl_cov(case.dist(logits), flat, advantages, fraction)
    (gradient,) = torch.autograd.grad(value.mean(), logits)

    probs, logprobs = log_probabilities(logits.detach().numpy(), flat)
    a, gap = advantages.numpy(), logprobs - flat.old_logprobs.numpy()
    covariance = (a - a.mean()) * (logprobs - logprobs.mean())
    number = max(1, round(fraction * a.size))
    chosen = covariance >= np.sort(covariance, axis=None)[-number]
    moved_away = chosen & (np.abs(gap) > 1e-6)  # forced moves have no gap
    np.testing.assert_allclose(
        float(value.mean().detach()), np.where(chosen, np.abs(gap), 0).mean(), atol=1e-10
    )
    weights = np.where(moved_away, np.sign(gap), 0.0) / a.size
    np.testing.assert_allclose(
        gradient.numpy(), gradient_of(weights, probs, flat), rtol=1e-10, atol=1e-10
    )
