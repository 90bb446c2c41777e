"""Plain sb3-contrib, and a policy of one's own that reads the facts of each legal move; nothing of `algorithms`.

    python examples/train_sb3_move_facts.py           # 20,000 moves against a random mover, some five minutes
    python examples/train_sb3_move_facts.py --smoke   # a quarter of a minute, to see that all works

Needs sb3-contrib: pip install -e ".[sb3]". Faster boards with these observations:
`algorithms.integrations.sb3.BoardsVecEnv(gym.make_vec(...), None)`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, flatdim
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from chess_env.move_facts import MOVE_FACTS, NUM_MOVE_FACTS

ACTIONS, MOVES, WIDTH = 1858, 218, 64


class ShowMoves(gym.Wrapper):
    """The observation with the legal moves and their facts, which are in the info."""

    def __init__(self, env):
        super().__init__(env)
        ids = Box(-1, ACTIONS - 1, (MOVES,), np.int16)
        facts = Box(0, 255, (MOVES, NUM_MOVE_FACTS), np.uint8)
        self.observation_space = Dict(planes=env.observation_space, legal_ids=ids, move_facts=facts)

    def reset(self, **arguments):
        planes, info = self.env.reset(**arguments)
        return {name: info.get(name, planes) for name in self.observation_space}, info

    def step(self, action):
        planes, *paid, info = self.env.step(action)
        return {name: info.get(name, planes) for name in self.observation_space}, *paid, info


class ReadMoves(BaseFeaturesExtractor):
    """float32 [N, ACTIONS + WIDTH]: a logit of each action, and the largest of the moves' features."""

    def __init__(self, space):
        super().__init__(space, ACTIONS + WIDTH)
        self.register_buffer("high", torch.tensor([float(fact.high) for fact in MOVE_FACTS]))
        self.board = nn.Sequential(nn.Flatten(), nn.Linear(flatdim(space["planes"]), WIDTH))
        self.facts, self.score = nn.Linear(NUM_MOVE_FACTS, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, seen):  # SB3 has made float32 of every array
        ids = seen["legal_ids"].long()  # -1 on padding, whose logits go to a column that is cut off
        ids = ids[:, : (ids >= 0).sum(1).max().clamp(1)]  # no wider than the most moves
        facts, board = seen["move_facts"][:, : ids.shape[1]], self.board(seen["planes"])
        moves = torch.relu(self.facts(facts / self.high) + board[:, None]) * (ids >= 0)[:, :, None]
        logits = moves.new_zeros(len(ids), ACTIONS + 1)
        logits = logits.scatter(1, ids % (ACTIONS + 1), self.score(moves).squeeze(2))[:, :ACTIONS]
        return torch.cat((logits, moves.amax(1)), 1)


class MovePolicy(MaskableMultiInputActorCriticPolicy):
    """SB3's critic, one layer on all features; its layer for the actions is not asked, they are there already."""

    def _get_action_dist_from_latent(self, features):
        return self.action_dist.proba_distribution(action_logits=features[:, :ACTIONS])


# The other player moves inside the step: SB3's advantages know one player.
game = {"opponent": "random", "evaluator": "builtin", "max_plies": 16, "move_facts": True}
boards = make_vec_env("ChessSelfPlay-v0", 8, seed=0, env_kwargs=game, wrapper_class=ShowMoves)
policy = {"net_arch": [], "ortho_init": False, "features_extractor_class": ReadMoves}
numbers = {"n_steps": 64, "batch_size": 128, "gamma": 0.5, "learning_rate": 1e-3}
model = MaskablePPO(MovePolicy, boards, policy_kwargs=policy, verbose=1, seed=0, **numbers)
model.learn(1_024 if "--smoke" in sys.argv else 20_000)
