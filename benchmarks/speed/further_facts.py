"""Microseconds a position that each further group of move facts adds, interleaved with the usual facts on one core.

    python -m benchmarks.speed.further_facts [--json benchmarks/results/further_facts.json]

Positions come from random play of 2 to 60 plies. Times are CPU times of this process pinned to one core; the cost of a
group is the median over the rounds of its time less that of the usual facts in the same round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np

from benchmarks.records.report import print_table, save
from chess_env.move_facts import FURTHER_GROUPS, FactsAsked, facts_asked, move_facts_batch
from chess_env.positions.start_positions import RandomPlies
from chess_env.rules.rules import legal_actions_batch

POSITIONS = 2000
USUAL = "usual facts"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    source = RandomPlies(2, 60, exclude_heldout=False)
    rng = np.random.default_rng(arguments.seed)
    positions = np.array([source.sample(rng) for _ in range(POSITIONS)])
    legal_ids, num_legal = legal_actions_batch(positions)
    legal_ids = np.ascontiguousarray(legal_ids[:, : num_legal.max()])
    contestants: dict[str, FactsAsked] = {USUAL: True}
    contestants |= {group: (group,) for group in FURTHER_GROUPS}
    contestants["all groups"] = FURTHER_GROUPS
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(1 + arguments.rounds):
        for name, groups in contestants.items():
            start = time.process_time()
            move_facts_batch(positions, legal_ids, asked=groups)
            times[name].append((time.process_time() - start) / POSITIONS * 1e6)
    usual = times[USUAL][1:]  # without the first round, which compiles
    rows = []
    for name, groups in contestants.items():
        more = [mine - theirs for mine, theirs in zip(times[name][1:], usual, strict=True)]
        taken = usual if name == USUAL else more
        rows.append(
            {
                "contestant": name,
                "columns": len(facts_asked(groups)) - (0 if name == USUAL else len(facts_asked(True))),
                "us_per_position": round(statistics.median(taken), 2),
                "lowest": round(min(taken), 2),
                "highest": round(max(taken), 2),
            }
        )  # fmt: skip
    print(f"{POSITIONS} positions, {num_legal.mean():.1f} legal moves each")
    print_table(rows)
    if arguments.json:
        save(arguments.json, "further_facts", rows)


if __name__ == "__main__":
    main()
