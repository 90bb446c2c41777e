"""The networks that read the facts of moves, small, for tests."""

from __future__ import annotations

from typing import Any

import torch

from algorithms.networks.build import build_policy
from algorithms.networks.move_net import MoveNet
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from tests.small import CPU

READERS = ("move_net", "transformer")


def small(network: str, seed: int = 0, **settings: Any) -> PolicyNet:
    """Any network of this project, with a critic."""
    config = NetworkConfig(
        network=network, **{"channels": 16, "blocks": 1, "head_dim": 8} | settings
    )
    return build_policy(config, seed=seed, device=CPU, critic=True)


def make(network: str, seed: int = 0, **settings: Any) -> MoveNet:
    policy = small(network, seed, **settings)
    assert isinstance(policy, MoveNet)
    return policy


def shaken(policy: MoveNet) -> MoveNet:
    """The policy with weights that are nowhere as they are at first."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return policy
