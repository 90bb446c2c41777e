"""A network that says of a move what its facts say, and nothing else; tests name it `FACTS`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from chess_env.move_facts import NUM_MOVE_FACTS

FACTS = NetworkConfig(network=f"{__name__}:FactsNet")


class FactsNet(nn.Module):
    """A logit is the weighted sum of the move's facts; a value that of the facts of the moves, at most 8 of each."""

    reads_move_facts = True

    def __init__(self, config: Any, *, critic: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(NUM_MOVE_FACTS) / 10)
        self.value = nn.Parameter(torch.randn(NUM_MOVE_FACTS) / 10) if critic else None

    def forward(self, obs: Any, legal_ids: Any, move_facts: Any) -> Any:
        facts = move_facts.clamp(max=8).to(self.weight.dtype)
        logits = (facts * self.weight).sum(-1)
        if self.value is None:
            return logits, None
        legal = legal_ids >= 0
        found = (facts * self.value).sum(-1).masked_fill(~legal, 0.0).sum(-1)
        return logits, found / legal.sum(-1).clamp(min=1)


def facts_policy(*, critic: bool = False, seed: int = 0) -> PolicyNet:
    return build_policy(FACTS, seed=seed, device=torch.device("cpu"), critic=critic).eval()


def weight_of(policy: PolicyNet) -> nn.Parameter:
    """float32 `[F]`: what each fact adds to a logit."""
    network = policy.network
    assert isinstance(network, FactsNet)
    return network.weight
