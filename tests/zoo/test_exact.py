from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.exact import Exact, forward_kl
from algorithms.grpo import GRPO
from algorithms.reinforce import Reinforce
from algorithms.testing.cases import Case, noise_like, random_case
from tests.zoo.case_loss import batch_loss


def expected_reward(case: Case, logits: torch.Tensor) -> torch.Tensor:
    """Mean over the states of sum_a pi(a) R(a), by enumeration."""
    table = case.batch.flatten(case.batch.rewards)
    return (case.dist(logits).probs * table).sum(-1).mean()


def mean_loss(case: Case, logits: torch.Tensor) -> torch.Tensor:
    """The batch's loss with weights in float64, where the algorithm's own are float32."""
    algorithm, flat = case.algorithm, case.flat
    dist = case.dist(logits)
    loss = algorithm.policy_loss(dist, flat, case.advantages(), algorithm.controls()).loss
    total = torch.where(flat.valid, loss, 0.0).sum() / flat.num_states
    torch.testing.assert_close(batch_loss(case, logits), total, rtol=1e-6, atol=1e-9)
    return total


@given(
    seed=st.integers(0, 2**31),
    temperature=st.sampled_from([0.5, 1.0, 1.3]),
    moved=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=30)
def test_the_gradient_is_exactly_minus_that_of_the_expected_reward(
    seed: int, temperature: float, moved: float
) -> None:
    case = random_case(Exact(), seed=seed, temperature=temperature, dtype=torch.float64)
    logits = (case.logits + moved * noise_like(case.logits)).requires_grad_()
    (policy_gradient,) = torch.autograd.grad(expected_reward(case, logits), logits)
    (gradient,) = torch.autograd.grad(mean_loss(case, logits), logits)
    torch.testing.assert_close(gradient, -policy_gradient, rtol=1e-10, atol=1e-14)


def test_an_incomplete_list_of_moves_is_refused() -> None:
    sampled = random_case(GRPO(group_size=4), seed=0).batch
    with pytest.raises(ValueError, match="all legal moves must be scored"):
        Exact().advantages(sampled)
    games = random_case(Reinforce(group_size=4), "games").batch
    with pytest.raises(ValueError, match=r"rollout\.form to 'positions'"):
        Exact().advantages(games)
    whole = random_case(Exact(), seed=0).batch
    hole = whole.valid.clone()
    likeliest = whole.old_logprobs.masked_fill(~whole.valid, -torch.inf).argmax(-1, keepdim=True)
    hole.scatter_(-1, likeliest, False)
    with pytest.raises(ValueError, match="once each"):
        Exact().advantages(dataclasses.replace(whole, valid=hole))


def test_scaled_it_is_the_gradient_of_the_rewards_in_units_of_each_states_own_spread() -> None:
    """Rewards divided beforehand by a state's standard deviation over its legal moves give the same."""
    scaled = random_case(Exact(advantage_scale="group"), seed=3, dtype=torch.float64)
    batch, valid = scaled.batch, scaled.batch.valid
    rewards = torch.where(valid, batch.rewards, torch.nan)
    spread = (rewards - rewards.nanmean(-1, keepdim=True)).square().nanmean(-1, keepdim=True).sqrt()
    divided = torch.where(valid, batch.rewards / (spread + 1e-4), 0.0)
    by_hand = Exact().advantages(dataclasses.replace(batch, rewards=divided))
    torch.testing.assert_close(scaled.algorithm.advantages(batch), by_hand, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", ["group", "none"])
def test_equal_rewards_teach_nothing(scale: str) -> None:
    case = random_case(Exact(advantage_scale=scale), seed=5, dtype=torch.float64)  # type: ignore[arg-type]
    equal = torch.where(case.batch.valid, 0.3, 0.0).double()
    advantages = case.algorithm.advantages(dataclasses.replace(case.batch, rewards=equal))
    assert float(advantages.abs().max()) < 1e-9


def test_by_hand_the_forward_kl_pulls_towards_the_softmax_of_the_rewards() -> None:
    """Rewards 0 and .1 ln 3 at .1 are odds of 3: the gradient in the logits is pi - (1/4, 3/4)."""
    logits = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([[0.0, 0.1 * math.log(3), 99.0]], dtype=torch.float64)
    valid = torch.tensor([[True, True, False]])
    logprobs = torch.where(valid, logits, -torch.inf).log_softmax(-1)
    loss = forward_kl(torch.where(valid, logprobs, 0.0), rewards, valid, 0.1)
    torch.testing.assert_close(loss.sum(), torch.tensor(math.log(2), dtype=torch.float64))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    torch.testing.assert_close(gradient, torch.tensor([[0.25, -0.25, 0.0]], dtype=torch.float64))
    nothing = forward_kl(logprobs.detach(), rewards, torch.zeros_like(valid), 0.1)
    assert (nothing == 0).all()


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_the_forward_kl_has_its_minimum_at_the_softmax_of_the_rewards(temperature: float) -> None:
    algorithm = Exact(forward_kl_temperature=temperature)
    case = random_case(algorithm, seed=6, temperature=1.0, dtype=torch.float64)
    flat = case.flat
    rewards = case.batch.flatten(case.batch.rewards)
    target = torch.where(flat.valid, rewards / temperature, -torch.inf).softmax(-1)
    logits = case.logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(mean_loss(case, logits), logits)
    probs = case.dist(case.logits).probs
    pull = torch.zeros_like(probs).scatter_add(-1, flat.slots, torch.where(flat.valid, target, 0.0))
    torch.testing.assert_close(gradient, (probs - pull) / flat.num_states, rtol=1e-6, atol=1e-9)
