"""How far PPO's credit should look in self-play, and how large its bonus may be: several seeds of each setting.

    python -m benchmarks.learning.ppo_credit --json benchmarks/results/ppo_credit.json
    python -m benchmarks.learning.ppo_credit --smoke

The preset `ppo` but for `gamma` and the entropy bonus, with the built-in evaluator. The whole takes
about an hour of one core.
"""

from __future__ import annotations

import argparse
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.learning.algorithms import run, spread
from benchmarks.records.report import print_table, save

UNIT_SCALE, SMALL = ("0.35", "0.09"), ("0.03", "0.008")
"""First and last `ent_coef`: that of `grpo` and `ppo_one_ply`, and that of `rloo`."""

SETTINGS = [
    (gamma, bonus)
    for bonus, gammas in ((UNIT_SCALE, ("0.99",)), (SMALL, ("0.99", "0.9", "0.5", "0")))
    for gamma in gammas
]
SHARED = shlex.split(
    "--policy.network resnet --env.evaluator builtin --num-threads 1 --eval-interval-updates 20 "
    "--diagnostics-interval-updates 1000000 --checkpoint-interval-updates 1000000"
)


def arguments_of(gamma: str, bonus: tuple[str, str], moves: int) -> list[str]:
    """What follows `chess-lab train`."""
    first, last = bonus
    own = ["--algorithm.gamma", gamma, "--regularizer.ent-coef", first]
    own += ["--regularizer.ent-coef-final", last, "--total-moves", str(moves)]
    return ["ppo", *own, *SHARED]


def row_of(gamma: str, bonus: tuple[str, str], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of the table: medians over the seeds, with the lowest and the highest."""
    return {
        "gamma": gamma,
        "ent_coef": " to ".join(bonus),
        "seeds": len(runs),
        "regret_cp_start": spread([run["curve"][0][1] for run in runs]),
        "regret_cp_end": spread([run["curve"][-1][1] for run in runs]),
        "greedy_cp_end": spread([run["curve"][-1][2] for run in runs]),
        "entropy_end": spread([run["entropy_end"] for run in runs]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--moves", type=int, default=20_000, help="budget of each run")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--smoke", action="store_true", help="a tiny budget, to see that it works")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    moves = 1_024 if options.smoke else options.moves
    seeds = options.seeds[:1] if options.smoke else options.seeds
    jobs = [(gamma, bonus, seed) for seed in seeds for gamma, bonus in SETTINGS]

    def one(job: tuple[str, tuple[str, str], int]) -> dict[str, Any]:
        gamma, bonus, seed = job
        return run(f"gamma {gamma}, bonus {bonus[0]}", seed, arguments_of(gamma, bonus, moves))

    with ThreadPoolExecutor(options.jobs) as pool:
        runs = dict(zip(jobs, pool.map(one, jobs), strict=True))
    rows = [
        row_of(gamma, bonus, [runs[gamma, bonus, seed] for seed in seeds])
        for gamma, bonus in SETTINGS
    ]
    print_table(rows)
    save(
        options.json,
        "ppo_credit",
        rows,
        moves=moves,
        flags=" ".join(SHARED),
        runs=list(runs.values()),
    )


if __name__ == "__main__":
    main()
