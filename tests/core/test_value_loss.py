from __future__ import annotations

import pytest
import torch

from algorithms.core.losses import value_loss


def loss_and_gradient(value: float, clip_range_vf: float | None) -> tuple[float, float]:
    """For an old value of 1 and a return of 2."""
    values = torch.tensor([value], dtype=torch.float64, requires_grad=True)
    old, returns = torch.ones(1, dtype=torch.float64), torch.full((1, 1), 2.0, dtype=torch.float64)
    loss = value_loss(values, old, returns, clip_range_vf)
    assert loss.shape == (1, 1)
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    return loss.item(), gradient.item()


@pytest.mark.parametrize(
    ("value", "clip_range_vf", "loss", "gradient"),
    [
        (1.0, None, 0.5, -1.0),
        (1.5, None, 0.125, -0.5),
        (1.25, 0.5, 0.28125, -0.75),  # inside the range
        (1.75, 0.5, 0.125, 0.0),  # beyond it on the way to the return: stops at 1.5
        (3.75, 0.5, 1.53125, 1.75),  # far past the return: the unclipped error is larger
        (0.0, 0.5, 2.0, -2.0),  # moved the wrong way: is pulled back in full
    ],
)
def test_hand_computed_losses_and_gradients(
    value: float, clip_range_vf: float | None, loss: float, gradient: float
) -> None:
    assert loss_and_gradient(value, clip_range_vf) == pytest.approx((loss, gradient))


def test_every_sample_of_a_state_pulls_at_its_one_value() -> None:
    values = torch.tensor([0.5, -1.0], requires_grad=True)
    returns = torch.tensor([[1.0, 3.0, -1.0], [0.0, 0.0, 2.0]])
    loss = value_loss(values, values, returns, None)
    torch.testing.assert_close(loss, 0.5 * (values[:, None] - returns).square())
    loss.sum().backward()
    torch.testing.assert_close(values.grad, 3 * values.detach() - returns.sum(-1))


def test_no_gradient_reaches_old_values_or_returns() -> None:
    values, old, returns = (torch.ones(2, requires_grad=True) for _ in range(3))
    value_loss(values, old, returns[:, None] * 2, 0.3).sum().backward()
    assert values.grad is not None
    assert old.grad is None
    assert returns.grad is None
