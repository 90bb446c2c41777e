"""A supervised start: label positions, learn them, and go on with GRPO from there.

    python examples/pretrain.py                 # until held-out regret no longer falls
    python examples/pretrain.py --smoke         # a few seconds, to see that everything works
    python examples/pretrain.py --run-dir runs/mine

The loop is in algorithms/pretraining/loop.py; docs/pretraining.md says what is learned and how
reinforcement learning goes on from it.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse

from algorithms.pretraining.config import LabelConfig, PretrainConfig, smoke
from algorithms.pretraining.loop import pretrain

parser = argparse.ArgumentParser(description="supervised pretraining")
parser.add_argument("--smoke", action="store_true", help="a run of a few seconds")
parser.add_argument("--run-dir", type=Path, help="where the run is kept (default: runs/...)")
options = parser.parse_args()

config = PretrainConfig(
    labels=LabelConfig(
        # Openings, middlegames and endgames, won and lost ones too, each followed by eight plies.
        start_positions="phase_mix",
        walk_plies=8,
        # A quarter of these plies is random; the others are the evaluator's best move.
        random_move_fraction=0.25,
        # It labels thousands of positions a second; "stockfish:depth=4" labels better, and tens.
        evaluator="builtin",
    ),
    # All legal moves share the target, by a softmax of the win probability that each leads to.
    target="soft",
    seed=0,
    run_dir=options.run_dir,
)
result = pretrain(smoke(config) if options.smoke else config)
print("\n".join(["", *result.lines()]))
print(f"go on: chess-lab train grpo --init-from {result.run_dir / 'checkpoints' / 'best'}")
