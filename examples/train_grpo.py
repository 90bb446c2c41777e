"""GRPO on chess self-play: sample, score, compare within the group, update.

    python examples/train_grpo.py                 # a run of some minutes on two cores
    python examples/train_grpo.py --smoke         # a few seconds, to see that everything works
    python examples/train_grpo.py --run-dir runs/mine

The loop is in algorithms/training/trainer.py, the algorithm in algorithms/grpo.py, and entropy and
KL in algorithms/regularization/.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse

from algorithms.config.run import EnvConfig, RolloutConfig, TrainConfig, smoke
from algorithms.grpo import GRPO
from algorithms.regularization import RegularizerConfig
from algorithms.training.trainer import train

parser = argparse.ArgumentParser(description="GRPO on chess self-play")
parser.add_argument("--smoke", action="store_true", help="a run of a few seconds")
parser.add_argument("--run-dir", type=Path, help="where the run is kept (default: runs/...)")
options = parser.parse_args()

config = TrainConfig(
    # Each position is shown once to the network; 8 of its moves are drawn and scored.
    algorithm=GRPO(group_size=8, clip_range=0.2, advantage_scale="group"),
    # The bonus keeps the policy trying moves; it fades as the policy comes to know better.
    regularizer=RegularizerConfig(ent_coef=0.35, ent_coef_final=0.09),
    # 64 games of 4 plies side by side in each rollout. The learner uses the same temperature.
    rollout=RolloutConfig(form="positions", num_envs=64, num_plies=4, temperature=1.0),
    # "auto": Stockfish at depth 4 where it is found, otherwise the built-in evaluator.
    env=EnvConfig(evaluator="auto", start_positions="random_plies:2-40"),
    total_moves=300_000,
    seed=0,
    run_dir=options.run_dir,
)
result = train(smoke(config) if options.smoke else config)
print("\n".join(["", *result.lines()]))
