from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.exact import Exact
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


@given(seed=st.integers(0, 2**31), temperature=st.sampled_from([0.5, 1.0, 1.3]))
@settings(max_examples=30, deadline=None)
def test_the_gradient_is_exactly_minus_that_of_the_expected_reward(
    seed: int, temperature: float
) -> None:
    case = random_case(Exact(), seed=seed, temperature=temperature, dtype=torch.float64)
    logits = case.logits.clone().requires_grad_()
    (policy_gradient,) = torch.autograd.grad(expected_reward(case, logits), logits)
    (gradient,) = torch.autograd.grad(mean_loss(case, logits), logits)
    torch.testing.assert_close(gradient, -policy_gradient, rtol=1e-10, atol=1e-14)


def test_away_from_the_policy_that_moved_it_is_still_the_gradient_of_the_expected_reward() -> None:
    case = random_case(Exact(), seed=1, dtype=torch.float64)
    moved = (case.logits + noise_like(case.logits)).requires_grad_()
    (gradient,) = torch.autograd.grad(mean_loss(case, moved), moved)
    (policy_gradient,) = torch.autograd.grad(expected_reward(case, moved), moved)
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


def test_scaled_it_does_not_depend_on_how_far_the_policy_has_sharpened_or_on_the_unit() -> None:
    case = random_case(Exact(advantage_scale="group"), seed=4, dtype=torch.float64)
    batch, algorithm = case.batch, case.algorithm
    advantages = algorithm.advantages(batch)
    tenfold = algorithm.advantages(dataclasses.replace(batch, rewards=1e4 * batch.rewards))
    torch.testing.assert_close(tenfold, advantages, rtol=1e-2, atol=1e-9)
    sharper = torch.where(batch.valid, 4 * batch.old_logprobs, -torch.inf).log_softmax(-1)
    sharp = algorithm.advantages(
        dataclasses.replace(batch, old_logprobs=torch.where(batch.valid, sharper, 0.0))
    )
    shift = torch.where(batch.valid, sharp - advantages, 0.0)
    assert float(shift.abs().max()) > 0.1  # the baseline has moved
    low = torch.where(batch.valid, shift, torch.inf).amin(-1)
    high = torch.where(batch.valid, shift, -torch.inf).amax(-1)
    torch.testing.assert_close(low, high, rtol=0, atol=1e-9)  # and nothing else has


@pytest.mark.parametrize("scale", ["group", "none"])
def test_equal_rewards_teach_nothing(scale: str) -> None:
    case = random_case(Exact(advantage_scale=scale), seed=5, dtype=torch.float64)  # type: ignore[arg-type]
    equal = torch.where(case.batch.valid, 0.3, 0.0).double()
    advantages = case.algorithm.advantages(dataclasses.replace(case.batch, rewards=equal))
    assert float(advantages.abs().max()) < 1e-9
