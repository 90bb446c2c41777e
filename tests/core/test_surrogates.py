from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical
from algorithms.core.surrogates import clipped_ratio, score_function


def loss_and_gradient(ratio: float, advantage: float) -> tuple[float, float]:
    logprobs = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    loss = clipped_ratio(
        logprobs,
        torch.zeros(1, 1, dtype=torch.float64),
        torch.tensor([[advantage]], dtype=torch.float64),
        0.2,
        0.3,
    )
    loss.sum().backward()
    assert logprobs.grad is not None
    return loss.item(), logprobs.grad.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.25, 2.0, -2.5, -2.5),
        (1.4, 2.0, -2.6, 0.0),  # clipped above
        (0.5, 2.0, -1.0, -1.0),  # below the range but pulled back up
        (0.7, -2.0, 1.6, 0.0),  # clipped below
        (0.9, -2.0, 1.8, 1.8),
        (1.4, -2.0, 2.8, 2.8),  # above the range but pulled back down
    ],
)
def test_hand_computed_losses_and_gradients(
    ratio: float, advantage: float, loss: float, gradient: float
) -> None:
    measured = loss_and_gradient(ratio, advantage)
    assert measured == (pytest.approx(loss), pytest.approx(gradient))


def exact_gradients(temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """(policy gradient by enumeration, clipped ratio's, score function's) wrt the logits, on-policy."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    legal = torch.arange(6) < torch.tensor([[6], [4], [1]])
    rewards = torch.randn(3, 6, generator=generator, dtype=torch.float64)
    dist = MaskedCategorical(logits, legal, temperature)
    (exact,) = torch.autograd.grad((dist.probs * rewards).sum(), logits, retain_graph=True)
    slots = torch.arange(6).expand(3, 6).clamp(max=legal.sum(-1, keepdim=True) - 1)
    weight = dist.probs.detach() * legal
    logprobs = dist.gather(slots)
    ratio_loss = (weight * clipped_ratio(logprobs, logprobs, rewards, 0.2, 0.2)).sum()
    score_loss = (weight * score_function(logprobs, rewards)).sum()
    (ratio_gradient,) = torch.autograd.grad(ratio_loss, logits, retain_graph=True)
    (score_gradient,) = torch.autograd.grad(score_loss, logits)
    return exact, -ratio_gradient, -score_gradient


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.3])
def test_on_policy_both_surrogates_have_exactly_the_policy_gradient_in_expectation(
    temperature: float,
) -> None:
    exact, from_ratio, from_score = exact_gradients(temperature)
    torch.testing.assert_close(from_ratio, exact)
    torch.testing.assert_close(from_score, exact)


def test_no_gradient_reaches_old_logprobs_or_advantages() -> None:
    old = torch.zeros(2, 3, requires_grad=True)
    advantages = torch.ones(2, 3, requires_grad=True)
    logprobs = torch.zeros(2, 3, requires_grad=True)
    total = (
        clipped_ratio(logprobs, old, advantages, 0.2, 0.2) + score_function(logprobs, advantages)
    ).sum()
    total.backward()
    assert old.grad is None
    assert advantages.grad is None
    assert logprobs.grad is not None


def test_an_infinite_upper_bound_switches_the_upper_clip_off() -> None:
    loss = clipped_ratio(torch.tensor([[5.0]]), torch.zeros(1, 1), torch.ones(1, 1), 1.0, math.inf)
    assert loss.item() == pytest.approx(-math.exp(5.0))
