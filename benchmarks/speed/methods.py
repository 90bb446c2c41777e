"""What an update of each method costs, beside that of the method that it departs from.

    python -m benchmarks.speed.methods [--json benchmarks/results/method_speed.json]

Targets and optimizer steps of one rollout with the default settings and network, one thread, CPU time of this process.
Every round does the update of a method and of its parent on the same batch from the same weights, in alternating
order. A further rollout (`dapo`, `aepo`) is not in it: its moves count towards the budget.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from algorithms.config.names import named_run
from algorithms.training.session import Session
from algorithms.updates.training_batch import make_targets
from algorithms.updates.update import update
from benchmarks.records.report import print_table, save

PARENTS = {
    **dict.fromkeys(("dppo", "sapo", "ce_gppo", "aspo", "bapo", "erc", "steer"), "dr_grpo"),
    **dict.fromkeys(("top_entropy", "lp_reg", "repo_r"), "dr_grpo"),
    **dict.fromkeys(("adapo", "gspo", "flowrl"), "grpo"),
    **dict.fromkeys(("maxrl", "pass_at_k", "w_reinforce", "nsr", "aepo"), "grpo"),
    "kondo": "delightful_pg",
}
"""Method -> the one that it departs from; both have the settings that the method's own name stands for."""

ROUNDS = 12


def seconds(session: Session, algorithm: Any, batch: Any) -> float:
    """CPU time of targets and steps by a copy of the learner."""
    learner = copy.deepcopy(session.learner)
    learner.algorithm, learner.controls = algorithm, algorithm.controls()
    learner.behaviour = learner.policy
    begun = time.process_time()
    update(learner, batch, make_targets(algorithm, learner.regularizer, batch))
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, parent in PARENTS.items():
        config = named_run(name)
        env = dataclasses.replace(config.env, evaluator="builtin", num_threads=1)
        session = Session(dataclasses.replace(config, env=env, device="cpu"))
        try:
            session.worker.start()
            batch = session.rollout().batch
            both = {name: config.algorithm, parent: named_run(parent).algorithm}
            spent: dict[str, list[float]] = {each: [] for each in both}
            for turn in range(ROUNDS + 2):
                for each in list(both)[:: 1 if turn % 2 else -1]:
                    found = seconds(session, both[each], batch)
                    if turn >= 2:
                        spent[each].append(found)
        finally:
            session.close()
        ratios = sorted(a / b for a, b in zip(spent[name], spent[parent], strict=True))
        rows.append({
            "method": name,
            "beside": parent,
            "update, median of the ratios": f"{statistics.median(ratios):.2f}",
            "lowest to highest": f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
        })  # fmt: skip
    print_table(rows)
    save(options.json, "method_speed", rows, rounds=ROUNDS)


if __name__ == "__main__":
    main()
