from __future__ import annotations

import math

import pytest
import torch

from algorithms.core.losses import cispo, clipped_ratio, expected_advantage, score_function


def loss_and_gradient(ratio: float, advantage: float) -> tuple[float, float]:
    logprobs = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    advantages = torch.tensor([[advantage]], dtype=torch.float64)
    loss = clipped_ratio(logprobs, torch.zeros_like(advantages), advantages, 0.2, 0.3)
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


@pytest.mark.parametrize(
    ("ratio", "weight"), [(1.0, 1.0), (0.5, 0.8), (0.9, 0.9), (1.25, 1.25), (4.0, 1.3)]
)
@pytest.mark.parametrize("advantage", [2.0, -2.0])
def test_cispo_clips_the_weight_and_never_the_gradient(
    ratio: float, weight: float, advantage: float
) -> None:
    logprobs = torch.tensor([[-1.0]], dtype=torch.float64, requires_grad=True)
    old = logprobs.detach() - math.log(ratio)
    loss = cispo(logprobs, old, torch.full((1, 1), advantage, dtype=torch.float64), 0.2, 0.3)
    loss.sum().backward()
    assert logprobs.grad is not None
    assert loss.item() == pytest.approx(weight * advantage)
    assert float(logprobs.grad) == pytest.approx(-weight * advantage)


def test_no_gradient_reaches_cispo_s_weight_or_any_advantage() -> None:
    old = torch.zeros(2, 3, requires_grad=True)
    advantages = torch.ones(2, 3, requires_grad=True)
    logprobs = torch.full((2, 3), -1.0, requires_grad=True)
    loss = cispo(logprobs, old, advantages, 0.2, 0.2) + expected_advantage(logprobs, advantages)
    loss.sum().backward()
    assert old.grad is None
    assert advantages.grad is None
    assert logprobs.grad is not None
