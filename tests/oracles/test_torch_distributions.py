"""Exact entropy and KL against torch.distributions on the legal moves alone."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Categorical, kl_divergence

from algorithms.core.distribution import MaskedCategorical
from algorithms.core.metrics import legal_entropy

MAX_MOVES = 218
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

cases = {
    "seed": st.integers(0, 10_000),
    "num_legal": st.integers(1, MAX_MOVES),
    "padding": st.integers(0, 7),
    "temperature": st.floats(0.5, 5),
}


def random_case(
    seed: int, num_legal: int, padding: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Two sets of logits `[3, L]` with huge numbers on the padding, and the mask."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(2, 3, num_legal + padding, generator=generator, dtype=dtype)
    legal = torch.arange(num_legal + padding).expand(3, -1) < num_legal
    logits = logits.masked_fill(~legal, 1e4)
    return logits[0], logits[1], legal


def close(ours: Tensor, theirs: Tensor) -> None:
    """Fails unless equal to the dtype's tolerance, relative to the largest number or to 1."""
    tolerance = TOLERANCE[theirs.dtype]
    scale = max(1.0, float(theirs.detach().abs().max()))
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(**cases)
@settings(max_examples=40, deadline=None)
def test_entropy_and_its_gradient_are_those_of_torch(
    dtype: torch.dtype, seed: int, num_legal: int, padding: int, temperature: float
) -> None:
    logits, _, legal = random_case(seed, num_legal, padding, dtype)
    logits.requires_grad_()
    dist = MaskedCategorical(logits, legal, temperature)
    expected = Categorical(logits=logits[:, :num_legal] / temperature).entropy()
    close(dist.entropy(), expected)
    close(legal_entropy(dist.logprobs), expected)
    (own,) = torch.autograd.grad(dist.entropy().sum(), logits)
    (theirs,) = torch.autograd.grad(expected.sum(), logits)
    close(own, theirs)
    if num_legal > 1:
        close(dist.normalized_entropy(), expected / math.log(num_legal))


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(**cases)
@settings(max_examples=40, deadline=None)
def test_kl_and_its_gradient_are_those_of_torch(
    dtype: torch.dtype, seed: int, num_legal: int, padding: int, temperature: float
) -> None:
    logits, other_logits, legal = random_case(seed, num_legal, padding, dtype)
    logits.requires_grad_()
    dist = MaskedCategorical(logits, legal, temperature)
    other = MaskedCategorical(other_logits, legal, temperature)
    theirs = kl_divergence(
        Categorical(logits=logits[:, :num_legal] / temperature),
        Categorical(logits=other_logits[:, :num_legal] / temperature),
    )
    close(dist.kl(other.logprobs), theirs)
    (own_gradient,) = torch.autograd.grad(dist.kl(other.logprobs).sum(), logits)
    (their_gradient,) = torch.autograd.grad(theirs.sum(), logits)
    close(own_gradient, their_gradient)


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(**cases)
@settings(max_examples=25, deadline=None)
def test_log_probabilities_of_sampled_moves_are_those_of_torch(
    dtype: torch.dtype, seed: int, num_legal: int, padding: int, temperature: float
) -> None:
    logits, _, legal = random_case(seed, num_legal, padding, dtype)
    dist = MaskedCategorical(logits, legal, temperature)
    slots = dist.sample(4, torch.Generator().manual_seed(seed))
    assert (slots < num_legal).all()
    theirs = Categorical(logits=logits[:, :num_legal] / temperature)
    close(dist.gather(slots), theirs.log_prob(slots.T).T)
