"""PPO on chess self-play: one game's moves, a critic that knows the opponent moves next, GAE.

    python examples/train_ppo.py                 # a run of about ten minutes on two cores
    python examples/train_ppo.py --smoke         # a few seconds, to see that everything works
    python examples/train_ppo.py --run-dir runs/mine

The loop is in algorithms/training/trainer.py, the algorithm in algorithms/ppo.py, and the signs of
self-play (a reply's reward counts against the move before) in algorithms/core/advantages.py.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse

from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig, smoke
from algorithms.ppo import PPO
from algorithms.regularization import RegularizerConfig
from algorithms.training.trainer import train

parser = argparse.ArgumentParser(description="PPO on chess self-play")
parser.add_argument("--smoke", action="store_true", help="a run of a few seconds")
parser.add_argument("--run-dir", type=Path, help="where the run is kept (default: runs/...)")
options = parser.parse_args()

config = TrainConfig(
    # One move per position; what it was worth is the rewards to come, as far as gamma looks.
    algorithm=PPO(update_epochs=4, gamma=0.99, gae_lambda=0.95, target_kl=0.02),
    # Small: one sample of each position says little, and a large bonus would drown it.
    regularizer=RegularizerConfig(ent_coef=0.03, ent_coef_final=0.008),
    # 64 games side by side, 16 plies of each in a rollout.
    rollout=RolloutConfig(form="positions", num_envs=64, num_plies=16, temperature=1.0),
    # "auto": Stockfish at depth 4 where it is found, otherwise the built-in evaluator.
    env=EnvConfig(evaluator="auto", start_positions="random_plies:2-40"),
    optimizer=OptimizerConfig(learning_rate=1e-3, minibatch_size=128),
    # Each move is one position, passed through the network 4 times: moves cost more than GRPO's.
    total_moves=100_000,
    seed=0,
    run_dir=options.run_dir,
)
result = train(smoke(config) if options.smoke else config)
print("\n".join(["", *result.lines()]))
