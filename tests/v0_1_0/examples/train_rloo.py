"""RLOO on chess self-play: each move against the mean of its siblings, one on-policy step per batch.

    python examples/train_rloo.py                 # a run of some minutes on two cores
    python examples/train_rloo.py --smoke         # a few seconds, to see that everything works
    python examples/train_rloo.py --run-dir runs/mine

The loop is in algorithms/training/trainer.py, the algorithm in algorithms/rloo.py; it differs from
algorithms/grpo.py in its advantages, its loss and the number of steps.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse

from algorithms.regularization import RegularizerConfig
from algorithms.rloo import RLOO
from algorithms.training.config import EnvConfig, RolloutConfig, TrainConfig, smoke
from algorithms.training.trainer import train

parser = argparse.ArgumentParser(description="RLOO on chess self-play")
parser.add_argument("--smoke", action="store_true", help="a run of a few seconds")
parser.add_argument("--run-dir", type=Path, help="where the run is kept (default: runs/...)")
options = parser.parse_args()

config = TrainConfig(
    # No ratio and no clip, because no sample is ever used by another policy than its own.
    algorithm=RLOO(group_size=8),
    # The bonus keeps the policy trying moves; it fades as the policy comes to know better.
    regularizer=RegularizerConfig(ent_coef=0.03, ent_coef_final=0.008),
    # Short rollouts, as every one of them is worth a single step: 32 positions x 8 moves.
    rollout=RolloutConfig(form="positions", num_envs=32, num_plies=1, temperature=1.0),
    # A game is played on for 8 plies after its start position.
    env=EnvConfig(evaluator="auto", start_positions="random_plies:2-40", max_plies=8),
    total_moves=300_000,
    seed=0,
    run_dir=options.run_dir,
)
result = train(smoke(config) if options.smoke else config)
print("\n".join(["", *result.lines()]))
