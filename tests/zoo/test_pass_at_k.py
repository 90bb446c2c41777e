"""Pass@k training against an enumeration of all k-subsets of a group."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.pass_at_k import PassAtK, pass_at_k
from algorithms.testing.cases import random_case
from tests.zoo.by_hand import by_group, rollout, samples


def definition(rewards: list[float], k: int) -> list[float]:
    """The mean over the k-subsets that hold a member of (best reward - mean over all) / std over all."""
    if len(rewards) < k:
        return [0.0] * len(rewards)
    subsets = list(itertools.combinations(range(len(rewards)), k))
    best = {subset: max(rewards[i] for i in subset) for subset in subsets}
    mean = sum(best.values()) / len(subsets)
    std = math.sqrt(sum((each - mean) ** 2 for each in best.values()) / len(subsets))
    found = []
    for member in range(len(rewards)):
        own = [best[subset] for subset in subsets if member in subset]
        found.append((sum(own) / len(own) - mean) / (std + 1e-6))
    return found


def group(successes: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    rewards = (torch.arange(size) < successes).double()[None]
    return rewards, torch.ones(1, size, dtype=torch.bool)


def test_one_success_of_four_with_pairs() -> None:
    """Of 6 pairs 3 succeed: rho = s = 1/2, A+ = 1, and A- = (1/2 - C(2, 1) / C(3, 1)) / s = -1/3."""
    found = pass_at_k(*group(1, 4), -1, 2)
    np.testing.assert_allclose(found[0], [1.0, -1 / 3, -1 / 3, -1 / 3], rtol=1e-5)


@pytest.mark.parametrize(("size", "k"), [(size, k) for size in range(2, 8) for k in range(1, size)])
def test_every_number_of_successes_agrees_with_the_enumeration_of_all_subsets(
    size: int, k: int
) -> None:
    for successes in range(size + 1):
        rewards, valid = group(successes, size)
        found = pass_at_k(rewards, valid, -1, k)[0]
        expected = definition(rewards[0].tolist(), k)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)
        assert abs(float(found.sum())) < 1e-9
        # No subset differs from another: exactly nothing, not a rounding error over 1e-6.
        assert bool(found.any()) == (successes > 0 and size - successes >= k)


@given(seed=st.integers(0, 2**31), k=st.integers(1, 6), rate=st.sampled_from([0.0, 0.15, 0.5, 1.0]))
@settings(max_examples=40)
def test_advantages_are_those_of_the_definition(seed: int, k: int, rate: float) -> None:
    case = samples(seed, 7, rate=rate)
    batch = rollout(case.old, case.slots, case.rewards, case.valid)
    found = PassAtK(group_size=7, k=k).advantages(batch)
    expected = by_group(lambda each: definition(each, k), case.rewards, case.valid, -1)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("form", ["positions", "games"])
def test_a_group_is_that_of_the_rollout_s_form(form: str) -> None:
    algorithm = PassAtK(k=2)
    batch = random_case(algorithm, form, seed=3, dtype=torch.float64).batch
    rewards, valid = batch.rewards.numpy(), batch.valid.numpy()
    expected = by_group(lambda each: definition(each, 2), rewards, valid, batch.group_axis)
    np.testing.assert_allclose(algorithm.advantages(batch).numpy(), expected, atol=1e-9)
