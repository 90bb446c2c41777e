"""Delightful PG on chess self-play: unlikely good moves teach the most, unlikely bad ones little.

    python examples/train_delightful_pg.py                 # a run of some minutes on two cores
    python examples/train_delightful_pg.py --smoke         # a few seconds, to see that all works
    python examples/train_delightful_pg.py --run-dir runs/mine

The loop is in algorithms/training/trainer.py, the algorithm in algorithms/delightful_pg.py and its
gate in algorithms/core/losses.py.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse

from algorithms.config.run import EnvConfig, RolloutConfig, TrainConfig, smoke
from algorithms.delightful_pg import DelightfulPG
from algorithms.regularization import RegularizerConfig
from algorithms.training.trainer import train

parser = argparse.ArgumentParser(description="Delightful PG on chess self-play")
parser.add_argument("--smoke", action="store_true", help="a run of a few seconds")
parser.add_argument("--run-dir", type=Path, help="where the run is kept (default: runs/...)")
options = parser.parse_args()

config = TrainConfig(
    # The gate is sigmoid(A x surprisal / (eta x std(A))): eta needs no knowledge of A's unit.
    algorithm=DelightfulPG(group_size=8, eta=1.0),
    # No bonus: the gate itself is what should keep the entropy up.
    regularizer=RegularizerConfig(ent_coef=0.0),
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
