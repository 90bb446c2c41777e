"""This project's environments; python our_game.py '{"num_envs": 64, "options": {...}}'. None boards: the single one."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from rounds import one_core, one_of, one_of_each, rng, serve

one_core()

import gymnasium as gym  # noqa: E402 - after the core is chosen

import chess_env  # noqa: E402, F401 - registers the environment
from chess_env.rules.action_bits import sample_action_bits  # noqa: E402

task = json.loads(sys.argv[1])
num_envs, options = task["num_envs"], task["options"]
env: Any
if num_envs is None:
    env = gym.make("ChessSelfPlay-v0", evaluator="none", **options)
else:
    env = gym.make_vec("ChessSelfPlay-v0", num_envs=num_envs, evaluator="none", **options)
_, info = env.reset(seed=0)


def single_step() -> int:
    global info
    _, _, terminated, truncated, info = env.step(one_of(info["action_mask"]))
    if terminated or truncated:
        _, info = env.reset()
    return 1


def vector_step() -> int:
    global info
    if "action_mask_bits" in info:
        actions = sample_action_bits(info["action_mask_bits"], rng.random(num_envs))
    else:
        actions = one_of_each(info["action_mask"])
    _, _, _, _, info = env.step(np.asarray(actions))
    return num_envs


serve(single_step if num_envs is None else vector_step, "chess-selfplay-lab")
