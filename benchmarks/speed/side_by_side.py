"""Rollouts of two shards in one process: side by side, one after the other, and the same boards undivided.

    python -m benchmarks.speed.side_by_side [--json PATH]

The three take turns; a row has the medians over the rounds of their ratios within a round.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import statistics
import time
from pathlib import Path

from algorithms.config.changes import changed
from algorithms.config.names import named_run
from algorithms.rollouts import worker
from algorithms.training.session import Session
from benchmarks.records.report import print_table, save

CASES = (("move_net", 64), ("move_net", 1_024), ("resnet", 64), ("resnet", 1_024), ("transformer", 64))  # fmt: skip


def session(network: str, num_envs: int, shards: int) -> Session:
    """A run of GRPO with the built-in evaluator, whose boards stand ready."""
    settings = {
        "policy.network": network, "rollout.num_envs": num_envs, "num_shards": shards,
        "env.evaluator": "builtin", "device": "cpu", "total_moves": 10**9, "run_dir": Path("unused"),
    }  # fmt: skip
    made = Session(dataclasses.replace(changed(named_run("grpo"), settings)))
    made.worker.start()
    return made


def seconds(made: Session, at_once: int) -> float:
    """Of one rollout, with so many shards at once."""
    worker.AT_ONCE = at_once
    begin = time.perf_counter()
    made.worker.collect(0, lambda moves: True)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for network, num_envs in CASES:
        whole, halves = (session(network, num_envs, shards) for shards in (1, 2))
        with contextlib.closing(whole), contextlib.closing(halves):
            rounds = [
                (seconds(whole, 1), seconds(halves, 1), seconds(halves, 2))
                for _ in range(1 + options.rounds)
            ][1:]
        rows.append({
            "network": network,
            "boards": num_envs,
            "one after the other / side by side": round(statistics.median(b / c for _, b, c in rounds), 2),
            "undivided / side by side": round(statistics.median(a / c for a, _, c in rounds), 2),
        })  # fmt: skip
        print(rows[-1], flush=True)
    print_table(rows)
    save(options.json, "side_by_side", rows, rounds=options.rounds)


if __name__ == "__main__":
    main()
