"""Four algorithms side by side: the same budget, starts and seeds, and what may be claimed.

    python examples/compare_algorithms.py                    # some hours on two cores; may be stopped and continued
    python examples/compare_algorithms.py --smoke            # about a minute, to see that everything works
    python examples/compare_algorithms.py --out runs/mine

`chess-lab compare` does the same from the command line; docs/comparison.md says what is kept equal.
The grid of runs is in algorithms/comparison/grid.py, the statistics in algorithms/reports/.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse
import os

from algorithms.comparison.compare import compare
from algorithms.comparison.plan import Plan

parser = argparse.ArgumentParser(description="Algorithms side by side on chess self-play")
parser.add_argument("--smoke", action="store_true", help="a comparison of half a minute")
parser.add_argument("--out", type=Path, default=Path("runs/comparison"), help="its folder")
options = parser.parse_args()

plan = Plan(
    # PPO is given the others' credit horizon and samples: gamma 0, eight moves of each position.
    presets=("grpo", "ppo", "rloo", "delightful_pg"),
    # Nothing holds the entropy up, so what is seen is the algorithm's own doing.
    treatments=("none",),
    # Six pairs need eight seeds: fewer cannot carry a claim, even if all of them agree.
    num_seeds=8,
    budget_moves=150_000,  # scored moves of each run
    evaluator="builtin",
)
if options.smoke:
    plan = Plan(("grpo", "rloo"), treatments=("none",), num_seeds=2, budget_moves=1_024, smoke=True)

# The same call continues a comparison that was stopped: finished runs are not repeated.
result = compare(plan, options.out, jobs=os.cpu_count() or 1)
print("\n".join(result.lines()))

for claim in result.values["families"]["regularization none"]["quantities"][0]["claims"]:
    print("-", claim)
sys.exit(1 if result.broken else 0)
