"""W-REINFORCE and NSR against their formula, and what no weight changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.w_reinforce import WReinforce, weighted_outcome
from tests.zoo.by_hand import expected_gradient, loss_of, rollout, samples


def test_a_success_gets_the_weight_and_a_failure_minus_one() -> None:
    rewards = torch.tensor([1.0, 0.0, 1.0, 0.0])
    valid = torch.tensor([True, True, False, False])
    assert weighted_outcome(rewards, valid, 0.5).tolist() == [0.5, -1.0, 0.0, 0.0]
    assert weighted_outcome(rewards, valid, 0.0).tolist() == [0.0, -1.0, 0.0, 0.0]


@given(
    seed=st.integers(0, 2**31),
    rate=st.sampled_from([0.0, 0.4, 1.0]),
    weight=st.sampled_from([0.0, 0.1, 1.0]),
)
@settings(max_examples=40, deadline=None)
def test_advantages_are_those_of_the_definition(seed: int, rate: float, weight: float) -> None:
    case = samples(seed, 4, rate=rate)
    batch = rollout(case.old, case.slots, case.rewards, case.valid)
    found = WReinforce(group_size=4, positive_weight=weight).advantages(batch)
    expected = np.where(case.rewards == 1, weight, -1.0) * case.valid
    np.testing.assert_array_equal(found[:, 0], expected)


@pytest.mark.parametrize("weight", [0.0, 0.1, 1.0])
def test_in_expectation_every_weight_climbs_the_success_rate(weight: float) -> None:
    """A = (1 + weight) r - 1, and a constant advantage has no expected gradient."""
    old, paid = np.array([0.3, -0.4, 1.1]), np.array([1.0, 0.0, 1.0])
    algorithm = WReinforce(group_size=3, positive_weight=weight)
    found, of_rate = expected_gradient(algorithm, old, paid, 3)
    np.testing.assert_allclose(found, -(1 + weight) * of_rate, rtol=1e-10)


def test_without_a_weight_successes_have_no_gradient_and_failures_are_pushed_down() -> None:
    logits = np.zeros((1, 4))
    batch = rollout(logits, np.array([[0, 0]]), np.array([[1.0, 0.0]]))
    nsr = WReinforce(group_size=2, positive_weight=0.0)
    _, gradient = loss_of(nsr, batch, logits)
    assert gradient[0, 0] > 0  # descent lowers the failed move
    assert gradient[0, 1] == gradient[0, 2] == gradient[0, 3] < 0  # and spreads it evenly
    batch = rollout(logits, np.array([[0, 0]]), np.ones((1, 2)))
    assert not loss_of(nsr, batch, logits)[1].any()


def test_the_advantages_have_the_unit_of_the_rewards_without_a_weight_alone() -> None:
    assert WReinforce(positive_weight=0.0).needs().reward_units
    assert not WReinforce().needs().reward_units
