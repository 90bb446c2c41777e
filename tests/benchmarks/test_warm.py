"""The policies that the causes start from are shipped, and as sure of themselves as the faults need."""

from __future__ import annotations

import pytest

from algorithms.evaluation.load_policy import load_policy
from benchmarks.learning.warm import WARM, describe


@pytest.mark.parametrize("network", WARM)
def test_a_warm_policy_is_a_little_better_than_chance_and_sure_enough(network: str) -> None:
    policy = load_policy(WARM[network].name)
    assert policy.config.network == network
    found = describe(policy.eval())
    assert 2.2 < found["entropy_1.0"] < 2.4 < found["entropy_1.3"] < 2.7
    assert 1.4 < found["logit_std"] < 1.7
    assert 280 < found["regret_cp"] < 290  # uniformly random moves have 380
