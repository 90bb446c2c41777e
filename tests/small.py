"""The small boards, network and batch that tests of several rooms take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from algorithms.core.batch import RolloutBatch
from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig
from algorithms.rollouts.collect import start_rollout
from chess_env.positions.start_positions import RandomPlies
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.env.material import MaterialEvaluator
from tests.rollouts.play import play_games, play_positions

CPU = torch.device("cpu")
VecOf = Callable[..., ChessSelfPlayVectorEnv]
"""The fixture `vec_of`: `make_vec`, and its boards are closed after the test."""


def make_vec(num_envs: int, **kwargs: Any) -> ChessSelfPlayVectorEnv:
    """Boards with the material evaluator from random positions (held-out ones included)."""
    kwargs.setdefault("evaluator", MaterialEvaluator())
    kwargs.setdefault("start_positions", RandomPlies(2, 40, exclude_heldout=False))
    return ChessSelfPlayVectorEnv(num_envs=num_envs, **kwargs)


def make_policy(seed: int = 0, spread: float = 1.0) -> PolicyNet:
    """A small network whose logits have a standard deviation of about `spread` (0: as initialised)."""
    policy = build_policy(
        NetworkConfig(network="resnet", channels=16, blocks=1, head_dim=8), seed=seed, device=CPU
    )
    if spread:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            policy.action_bias.normal_(0.0, spread, generator=generator)
    return policy


def make_batch(form: str = "positions", temperature: float = 1.0, seed: int = 0) -> RolloutBatch:
    """A real rollout of `make_policy(seed)`: 4 boards (2 starts in `games` form), 4 samples, 3 plies."""
    shared = {"temperature": temperature, "generator": torch.Generator().manual_seed(seed)}
    policy = make_policy(seed)
    vec = make_vec(4 if form == "positions" else 8)
    state = start_rollout(vec, seed)
    if form == "positions":
        return play_positions(vec, policy, state, **shared)[0]
    return play_games(vec, policy, **shared)
