"""A network says which of its parameters are a factor of its logits."""

from __future__ import annotations

import pytest
import torch

from algorithms.networks.build import build_policy
from algorithms.networks.settings import SIZES, NetworkConfig
from algorithms.testing.network_contract import states
from tests.networks.facts_net import FACTS
from tests.small import CPU


@pytest.mark.parametrize("network", SIZES)
@pytest.mark.parametrize("critic", [False, True])
def test_logits_are_twice_as_large_where_their_factors_are_and_values_stay(
    network: str, critic: bool
) -> None:
    config = NetworkConfig(network=network, size="tiny")
    policy = build_policy(config, seed=0, device=CPU, critic=critic)
    generator = torch.Generator().manual_seed(0)
    obs, legal_ids, facts = states()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        before, values = policy.logits_and_values(obs, legal_ids, facts)
        factors = policy.logit_factors()
        for parameter in (factors.action_bias, *factors.others):
            parameter.mul_(2.0)
        after, values_after = policy.logits_and_values(obs, legal_ids, facts)
    legal = legal_ids >= 0
    assert torch.equal(after[legal], 2.0 * before[legal]) and before[legal].std() > 0
    assert (values is None) != critic
    assert values is None or (values_after is not None and torch.equal(values, values_after))


@pytest.mark.parametrize("network", SIZES)
def test_the_action_bias_is_added_to_the_logit_of_its_action(network: str) -> None:
    policy = build_policy(NetworkConfig(network=network, size="tiny"), seed=0, device=CPU)
    obs, legal_ids, facts = states()
    with torch.no_grad():
        before = policy(obs, legal_ids, facts)
        action = legal_ids[0, 3].item()
        policy.logit_factors().action_bias[action] += 5.0
        changed = policy(obs, legal_ids, facts) - before
    expected = torch.where(legal_ids == action, 5.0, 0.0)
    torch.testing.assert_close(changed[legal_ids >= 0], expected[legal_ids >= 0])


def test_a_network_of_a_users_own_does_not_say_and_the_error_names_it() -> None:
    policy = build_policy(FACTS, seed=0, device=CPU)
    with pytest.raises(ValueError, match=r"facts_net:FactsNet.*logit_factors, such as resnet"):
        policy.logit_factors()
