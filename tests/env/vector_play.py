"""Making a vector environment for a test, and choosing actions on it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

import chess_env  # noqa: F401 - registers the environment
from chess_env.vector_env import ChessSelfPlayVectorEnv

NUM_ENVS = 5


def make(**arguments: Any) -> ChessSelfPlayVectorEnv:
    env = gym.make_vec(
        "ChessSelfPlay-v0", **({"num_envs": NUM_ENVS, "evaluator": "none"} | arguments)
    )
    assert isinstance(env, ChessSelfPlayVectorEnv)
    return env


def choose(info: dict[str, Any], rng: np.random.Generator, illegal_share: float) -> np.ndarray:
    slots = (rng.random(len(info["num_legal"])) * info["num_legal"]).astype(int)
    actions = info["legal_ids"][np.arange(len(slots)), slots].astype(np.int64)
    wild = rng.random(len(slots)) < illegal_share
    return np.where(wild, rng.integers(0, 1858, len(slots)), actions)
