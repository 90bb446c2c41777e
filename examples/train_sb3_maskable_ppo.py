"""sb3-contrib's MaskablePPO on our fast boards and our network.

    python examples/train_sb3_maskable_ppo.py           # 60,000 moves, some ten minutes on two cores
    python examples/train_sb3_maskable_ppo.py --smoke   # a quarter of a minute, to see that all works

Needs sb3-contrib: pip install -e ".[sb3]". The loop, buffer, advantages and update are SB3's own, and so is what it
prints. algorithms/integrations/sb3.py has the boards as SB3's VecEnv, and our networks as its policy.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import gymnasium as gym
from sb3_contrib import MaskablePPO

import chess_env  # noqa: F401 - registers ChessSelfPlay-v0
from algorithms.evaluation.regret import MAIN_SLICE, prepare_slice, regret_cp
from algorithms.integrations.sb3 import BoardsVecEnv, NetworkPolicy
from algorithms.networks.settings import NetworkConfig
from chess_env.positions.heldout import load_heldout

smoke = "--smoke" in sys.argv
# SB3's advantages know one player. So the other one must move inside the environment's step.
vec = gym.make_vec(
    "ChessSelfPlay-v0",
    num_envs=64,
    evaluator="builtin",
    opponent="builtin@random=0.5",
    start_positions="random_plies:2-40",
    max_plies=16,
    move_facts=True,  # which the network reads
)
# 64 games side by side, 16 moves of ours in each rollout. Rewards are changes of a score: with gamma
# near 1 they add up to how the game ends.
model = MaskablePPO(
    NetworkPolicy,
    BoardsVecEnv(vec, None),
    policy_kwargs={"config": NetworkConfig(size="tiny" if smoke else "medium")},
    **{"n_steps": 16, "batch_size": 128, "n_epochs": 4, "learning_rate": 1e-3},
    **{"gamma": 0.5, "gae_lambda": 0.95, "ent_coef": 0.01},
    verbose=1,
    seed=0,
)
heldout = prepare_slice(load_heldout(), MAIN_SLICE)


def measured() -> str:
    """Held-out regret of the policy, as in this project's own runs."""
    found = regret_cp(model.policy.net, heldout, temperature=1.0, device=model.device)
    return f"{found.regret_cp:.0f} cp"


print("held-out regret before:", measured())
model.learn(2_048 if smoke else 60_000)
print("held-out regret after:", measured())
