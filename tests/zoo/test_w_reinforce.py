"""W-REINFORCE and NSR against their formula, and what no weight changes."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.w_reinforce import WReinforce, weighted_outcome
from tests.zoo.by_hand import rollout, samples


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
@settings(max_examples=40)
def test_advantages_are_those_of_the_definition(seed: int, rate: float, weight: float) -> None:
    case = samples(seed, 4, rate=rate)
    batch = rollout(case.old, case.slots, case.rewards, case.valid)
    found = WReinforce(group_size=4, positive_weight=weight).advantages(batch)
    expected = np.where(case.rewards == 1, weight, -1.0) * case.valid
    np.testing.assert_array_equal(found[:, 0], expected)
