"""MaxRL against its formula and against the gradient that its expectation must be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.maxrl import MaxRL, mean_relative
from algorithms.testing.cases import random_case
from tests.zoo.by_hand import by_group, expected_gradient, rollout, samples


def definition(rewards: list[float]) -> list[float]:
    mean = sum(rewards) / len(rewards)
    alone = len(rewards) < 2 or mean <= 0
    return [0.0 if alone else (reward - mean) / (mean + 1e-6) for reward in rewards]


def test_one_success_of_four_gets_three_and_each_failure_minus_one() -> None:
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    found = mean_relative(rewards, torch.ones(1, 4, dtype=torch.bool), -1)
    expected = torch.tensor([[3.0, -1.0, -1.0, -1.0]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)


def test_the_mean_is_that_of_the_valid_members_and_one_alone_gives_nothing() -> None:
    rewards = torch.tensor([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    valid = torch.tensor([[True, True, False], [True, False, False]])
    found = mean_relative(rewards, valid, -1)
    assert found[0].tolist() == pytest.approx([1.0, -1.0, 0.0], rel=1e-5)
    assert not found[1].any()


@given(seed=st.integers(0, 2**31), rate=st.sampled_from([0.0, 0.2, 0.6, 1.0]))
@settings(max_examples=40)
def test_advantages_are_those_of_the_definition(seed: int, rate: float) -> None:
    case = samples(seed, 8, rate=rate)
    found = MaxRL().advantages(rollout(case.old, case.slots, case.rewards, case.valid))
    expected = by_group(definition, case.rewards, case.valid, -1)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("form", ["positions", "games"])
def test_a_group_is_that_of_the_rollout_s_form(form: str) -> None:
    batch = random_case(MaxRL(), form, seed=3, dtype=torch.float64).batch
    expected = by_group(definition, batch.rewards.numpy(), batch.valid.numpy(), batch.group_axis)
    np.testing.assert_allclose(MaxRL().advantages(batch).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_expected_gradient_is_that_of_the_likelihood_cut_off_at_order_size_minus_one(
    size: int,
) -> None:
    """(1 - (1 - p)^(size - 1)) / p times the gradient of p: 1 + (1 - p) + ... + (1 - p)^(size - 2)."""
    old, paid = np.array([0.3, -0.4, 1.1]), np.array([0.0, 1.0, 0.0])
    found, of_rate = expected_gradient(MaxRL(group_size=size), old, paid, size)
    p = np.exp(old)[1] / np.exp(old).sum()
    weight = sum((1 - p) ** k for k in range(size - 1))
    np.testing.assert_allclose(found, -weight * of_rate, rtol=1e-5)
