"""Wall time of our PPO and of sb3-contrib's MaskablePPO: the same moves, network, first weights and step size."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.records.command_line import trained

MODE = "one_ply"
"""Of `benchmarks.learning.sb3_ppo`, whose record has the results of six seeds over 98,304 moves."""


def timed(moves: int, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The row of each trainer, ours first; they take turns, in the other order each time.

    Args:
        moves: scored moves of a run.
        seeds: one pair of runs each.
    """
    if importlib.util.find_spec("sb3_contrib") is None:
        reason = "sb3-contrib is not installed here: pip install -e '.[sb3]'"
        return [{"trainer": "MaskablePPO of sb3-contrib", "not_measured_because": reason}]
    # They import torch, which the other tables do not need.
    from algorithms.comparison.variants import train_arguments, with_intervals
    from benchmarks.learning.sb3_ppo import OURS, THEIRS, config_of

    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    found: dict[str, list[tuple[float, float, float]]] = {OURS: [], THEIRS: []}
    for number, seed in enumerate(seeds):
        for name in (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS):
            config = dataclasses.replace(config_of(MODE, name, smoke=False), total_moves=moves)
            print(f"{name}, seed {seed}", flush=True)
            began = time.perf_counter()
            _, evaluations = trained(seed, list(train_arguments(with_intervals(config)))[1:])
            wall_s = time.perf_counter() - began
            inside_s = evaluations[-1]["time/wall_s"] - evaluations[0]["time/wall_s"]
            found[name].append((wall_s, inside_s, evaluations[-1]["eval/regret_cp"]))
    rows = []
    for name, told in ((OURS, "this project's PPO"), (THEIRS, "MaskablePPO of sb3-contrib")):
        walls, insides, regrets = zip(*found[name], strict=True)
        ratios = [
            theirs[1] / own[1] for own, theirs in zip(found[name], found[THEIRS], strict=True)
        ]
        rows.append(
            {
                "trainer": told,
                "scored_moves": moves,
                "seeds": len(seeds),
                "command_s": round(statistics.median(walls), 1),
                "first_to_last_evaluation_s": round(statistics.median(insides), 1),
                "times_faster_than_MaskablePPO": f"{statistics.median(ratios):.2f}",
                "regret_cp": round(statistics.median(regrets), 1),
            }
        )
    return rows
