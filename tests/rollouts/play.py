"""Rollouts by a policy, for tests: the settings of the sampler beside those of the rollout."""

from __future__ import annotations

from typing import Any

from algorithms.core.batch import RolloutBatch
from algorithms.networks.policy_net import PolicyNet
from algorithms.rollouts.games import collect_games
from algorithms.rollouts.ply import Sampler
from algorithms.rollouts.positions import collect_positions
from algorithms.rollouts.state import VecState

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
    own = {name: settings[name] for name in SAMPLER if name in settings}
    return Sampler(policy, **own), {k: v for k, v in settings.items() if k not in own}
