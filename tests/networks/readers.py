"""The networks that read the facts of moves, small, for tests."""

from __future__ import annotations

from typing import Any

import torch

from algorithms.networks.build import build_policy
from algorithms.networks.move_net import MoveNet
from algorithms.networks.settings import NetworkConfig
from tests.small import CPU

READERS = ("move_net", "transformer")


def make(network: str, seed: int = 0, **settings: Any) -> MoveNet:
    config = NetworkConfig(
        network=network, **{"channels": 16, "blocks": 1, "head_dim": 8} | settings
    )
    policy = build_policy(config, seed=seed, device=CPU, critic=True)
    assert isinstance(policy, MoveNet)
    return policy


def shaken(policy: MoveNet) -> MoveNet:
    """The policy with weights that are nowhere as they are at first."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return policy
