"""sb3-contrib's MaskablePPO on our boards, network and record, beside our own PPO.

    python examples/train_sb3_maskable_ppo.py                 # a run of some ten minutes on two cores
    python examples/train_sb3_maskable_ppo.py --smoke         # half a minute, to see that all works
    python examples/train_sb3_maskable_ppo.py --run-dir runs/mine
    python examples/train_sb3_maskable_ppo.py --loop native   # the same settings with our own loop

Needs sb3-contrib: pip install -e ".[sb3]". The boards as SB3's VecEnv are in
algorithms/integrations/sb3/boards.py, our networks as its policy in policy.py, and which setting becomes
which argument in settings.py.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse

from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig, smoke
from algorithms.integrations.sb3.session import train_sb3
from algorithms.ppo import PPO
from algorithms.regularization import RegularizerConfig
from algorithms.training.trainer import train

parser = argparse.ArgumentParser(description="MaskablePPO on chess")
parser.add_argument("--smoke", action="store_true", help="a run of half a minute")
parser.add_argument("--loop", choices=("sb3", "native"), default="sb3", help="whose loop learns")
parser.add_argument("--run-dir", type=Path, help="where the run is kept (default: runs/...)")
options = parser.parse_args()

config = TrainConfig(
    # One move of a position. What MaskablePPO has no counterpart for is refused by name.
    # Rewards are changes of a score: with gamma near 1 they add up to how the game ends.
    algorithm=PPO(update_epochs=4, clip_range=0.2, gamma=0.5, gae_lambda=0.95),
    regularizer=RegularizerConfig(ent_coef=0.01),
    # 64 games side by side, 16 moves of ours in each rollout.
    rollout=RolloutConfig(form="positions", num_envs=64, num_plies=16, temperature=1.0),
    # SB3's advantages know one player. So the other one must move inside the environment's step.
    env=EnvConfig(
        evaluator="auto",
        start_positions="random_plies:2-40",
        opponent="builtin@random=0.5",
        max_plies=16,
    ),
    optimizer=OptimizerConfig(learning_rate=1e-3, minibatch_size=128),
    total_moves=100_000,
    seed=0,
    run_dir=options.run_dir,
    loop=options.loop,
)
run = train_sb3 if options.loop == "sb3" else train
result = run(smoke(config) if options.smoke else config)
print("\n".join(["", *result.lines()]))
