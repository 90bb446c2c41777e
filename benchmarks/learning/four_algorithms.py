"""Runs the comparison of GRPO, PPO, RLOO and Delightful PG: who keeps most entropy at equal regret?

    python -m benchmarks.learning.four_algorithms --out runs/four --json benchmarks/results/four_algorithms.json

The same as the `chess-lab compare` that it prints; calling again continues it. `python -m
docs.pages findings` writes docs/findings.md from the JSON, which is the comparison's own with figures of 6 digits.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from algorithms.comparison.compare import StoppedError, compare
from algorithms.comparison.plan import Plan
from benchmarks.records.causes import write

PLAN = Plan(
    presets=("grpo", "ppo", "rloo", "delightful_pg"),
    num_seeds=8,
    budget_moves=65_536,
    treatments=("none", "equal", "share"),
    tune=True,
    network="resnet",
)
COMMAND = (
    f"chess-lab compare {' '.join(PLAN.presets)} --seeds {PLAN.num_seeds} --budget-moves "
    f"{PLAN.budget_moves} --regularization {','.join(PLAN.treatments)} --tune --jobs 2 --out runs/four "
    f"--network {PLAN.network}"
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--out", type=Path, required=True, help="folder of the comparison")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(COMMAND, flush=True)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    try:
        result = compare(PLAN, options.out, jobs=options.jobs)
    except StoppedError as stopped:
        print(f"{stopped}: the same command continues; nothing is written")
        return stopped.exit_code
    print("\n".join(result.lines()))
    if options.json is not None:
        # Without the command line as it was given: its paths mean nothing elsewhere.
        provenance = {k: v for k, v in result.values["provenance"].items() if k != "command"}
        values = result.values | {"provenance": provenance}
        write(options.json, {"benchmark": "four_algorithms", "command": COMMAND, **values})
    return 1 if result.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
