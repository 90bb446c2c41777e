"""Expectations of the sampled estimators, by adding up every possible sample in float64.

One state with few moves. The exact policy gradient is that of sum_a pi(a) R(a); an estimator's
expectation is the sum over all actions, or all ordered groups of G actions, of probability times
gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from algorithms.core.advantages import group_relative, leave_one_out
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import (
    cispo,
    clipped_ratio,
    sample_mean,
    score_function,
)

MOVES, PADDING, TEMPERATURE = 5, 2, 1.3
LEGAL = torch.arange(MOVES + PADDING) < MOVES


@pytest.fixture(autouse=True)
def float64_weights() -> Iterator[None]:
    """Reductions make their weights in the default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def make_state(seed: int) -> tuple[Tensor, Tensor]:
    """Float64 logits `[L]` with a gradient, and the rewards `[L]` of the moves."""
    generator = torch.Generator().manual_seed(seed)
    shape = (MOVES + PADDING,)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
    return logits, torch.randn(shape, generator=generator, dtype=torch.float64)


def policy_of(logits: Tensor) -> MaskedCategorical:
    return MaskedCategorical(logits.unsqueeze(0), LEGAL.unsqueeze(0), TEMPERATURE)


def policy_gradient(logits: Tensor, rewards: Tensor) -> Tensor:
    """Of the expected reward, by differentiating it."""
    (gradient,) = torch.autograd.grad((policy_of(logits).probs * rewards).sum(), logits)
    return gradient


def expected_gradient(
    logits: Tensor, group_size: int, group_loss: Callable[[MaskedCategorical, Tensor], Tensor]
) -> Tensor:
    """Minus the expected gradient of `group_loss(dist, slots [1, G])` over all groups of moves."""
    dist = policy_of(logits)
    total = torch.zeros(())
    for group in itertools.product(range(MOVES), repeat=group_size):
        slots = torch.tensor([group])
        probability = dist.gather(slots).sum().exp().detach()
        total = total + probability * group_loss(dist, slots)
    (gradient,) = torch.autograd.grad(-total, logits)
    return gradient


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-13)


def mean_loss(losses: Tensor) -> Tensor:
    weights = sample_mean(torch.ones_like(losses, dtype=torch.bool))
    return (weights * losses).sum()


@pytest.mark.parametrize("baseline", [0.0, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_the_score_function_has_the_policy_gradient_in_expectation_whatever_the_baseline(
    seed: int, baseline: float
) -> None:
    logits, rewards = make_state(seed)
    gradient = expected_gradient(
        logits,
        1,
        lambda dist, slots: mean_loss(
            score_function(dist.gather(slots), rewards[slots] - baseline)
        ),
    )
    close(gradient, policy_gradient(logits, rewards))
    assert (gradient[MOVES:] == 0).all()


def shares(advantage: Callable[[Tensor], Tensor], rewards: Tensor) -> Callable[..., Tensor]:
    """The score-function loss of a group with advantages from its own rewards."""
    return lambda dist, slots: mean_loss(
        score_function(dist.gather(slots), advantage(rewards[slots]))
    )


def everyone(rewards: Tensor) -> Tensor:
    return torch.ones_like(rewards, dtype=torch.bool)


@pytest.mark.parametrize("group_size", [2, 3, 4])
def test_leave_one_out_is_unbiased(group_size: int) -> None:
    logits, rewards = make_state(1)
    loss = shares(lambda r: leave_one_out(r, everyone(r), -1), rewards)
    close(expected_gradient(logits, group_size, loss), policy_gradient(logits, rewards))


@pytest.mark.parametrize("group_size", [2, 3, 4])
def test_the_group_mean_shrinks_the_policy_gradient_by_its_own_share(group_size: int) -> None:
    logits, rewards = make_state(1)
    loss = shares(lambda r: group_relative(r, everyone(r), -1, "none"), rewards)
    shrunk = (group_size - 1) / group_size * policy_gradient(logits, rewards)
    close(expected_gradient(logits, group_size, loss), shrunk)


def test_dividing_by_the_groups_standard_deviation_changes_the_direction() -> None:
    # Not a bug of ours but GRPO's own bias: the expectation is no multiple of the policy gradient.
    logits, rewards = make_state(1)
    loss = shares(lambda r: group_relative(r, everyone(r), -1, "group"), rewards)
    biased, exact = expected_gradient(logits, 3, loss), policy_gradient(logits, rewards)
    cosine = torch.nn.functional.cosine_similarity(biased, exact, dim=0)
    assert 0.5 < float(cosine) < 0.999


@pytest.mark.parametrize("surrogate", [clipped_ratio, cispo])
def test_ratio_surrogates_are_unbiased_for_stale_samples_until_they_clip(
    surrogate: Callable[..., Tensor],
) -> None:
    logits, rewards = make_state(2)
    stale, _ = make_state(3)
    behaviour = policy_of((logits + 0.3 * stale).detach())

    def off_policy(low: float, high: float) -> Tensor:
        slots = torch.arange(MOVES).unsqueeze(0)
        old = behaviour.gather(slots)
        losses = surrogate(policy_of(logits).gather(slots), old, rewards[slots], low, high)
        (gradient,) = torch.autograd.grad(-(old.exp() * losses).sum(), logits)
        return gradient

    exact = policy_gradient(logits, rewards)
    close(off_policy(1.0, float("inf")), exact)
    assert (off_policy(0.05, 0.05) - exact).abs().max() > 1e-3
