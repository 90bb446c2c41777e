"""Rollouts by a policy, for tests: the settings of the sampler beside those of the rollout.

What is not given: 3 plies, 4 samples of a position, temperature 1.3, seed 0, on the CPU.
"""

from __future__ import annotations

from typing import Any

import torch

from algorithms.core.batch import RolloutBatch
from algorithms.networks.policy_net import PolicyNet
from algorithms.rollouts.collect import collect_games, collect_positions
from algorithms.rollouts.sampling import Sampler, VecState

SAMPLER = ("temperature", "generator", "device", "greedy_fraction", "policy_version")


def play_positions(
    vec: Any, policy: PolicyNet, state: VecState, **settings: Any
) -> tuple[RolloutBatch, VecState]:
    """`collect_positions` of a sampler made from the settings that are its own."""
    sampler, rest = _sampler(policy, settings)
    return collect_positions(vec, sampler, state, **rest)


def play_games(vec: Any, policy: PolicyNet, **settings: Any) -> RolloutBatch:
    """`collect_games`, likewise."""
    sampler, rest = _sampler(policy, settings)
    return collect_games(vec, sampler, **rest)


def _sampler(policy: PolicyNet, settings: dict[str, Any]) -> tuple[Sampler, dict[str, Any]]:
    plain = {"num_plies": 3, "group_size": 4, "temperature": 1.3, "device": torch.device("cpu")}
    settings = {**plain, "generator": torch.Generator().manual_seed(0), **settings}
    own = {name: settings[name] for name in SAMPLER if name in settings}
    return Sampler(policy, **own), {k: v for k, v in settings.items() if k not in own}
