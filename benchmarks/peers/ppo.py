"""Wall time of our PPO and of sb3-contrib's MaskablePPO: equal moves, networks, weights, settings and result."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.records.command_line import chess_lab

MODES = ("one_ply_move_net", "versus")
"""Of `benchmarks.learning.sb3_ppo`, whose records say that both trainers come to the same regret, over six seeds."""


STAGES = ("time/rollout_s", "time/update_s")


class Run(NamedTuple):
    """What a run took and came to.

    Attributes:
        command_s: the whole command.
        learning_s: its rollouts and updates, without evaluations and without what only writes the record.
        regret_cp: at the end.
    """

    command_s: float
    learning_s: float
    regret_cp: float


def timed(modes: Sequence[str], moves: int | None, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of each comparison, ours first; the trainers take turns, in the other order each time.

    Args:
        modes: names of comparisons.
        moves: scored moves of a run; None: those of the comparison.
        seeds: one pair of runs each.
    """
    if importlib.util.find_spec("sb3_contrib") is None:
        reason = "sb3-contrib is not installed here: pip install -e '.[sb3]'"
        return [{"trainer": "MaskablePPO of sb3-contrib", "not_measured_because": reason}]
    # They import torch, which the other tables do not need.
    from benchmarks.learning.sb3_ppo import OURS, THEIRS, config_of

    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    rows = []
    for mode in modes:
        configs = {name: config_of(mode, name, smoke=False) for name in (OURS, THEIRS)}
        if moves is not None:
            configs = {
                name: dataclasses.replace(config, total_moves=moves)
                for name, config in configs.items()
            }
        found: dict[str, list[Run]] = {OURS: [], THEIRS: []}
        for number, seed in enumerate(seeds):
            for name in (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS):
                found[name].append(_trained(configs[name], seed))
                print(f"{mode}, {name}, seed {seed}: {found[name][-1]}", flush=True)
        rows += rows_of(mode, configs[OURS].total_moves, found[OURS], found[THEIRS])
    return rows


def rows_of(
    mode: str, moves: int, ours: Sequence[Run], theirs: Sequence[Run]
) -> list[dict[str, Any]]:
    """The row of each trainer, from runs that belong together by their place."""
    rows = []
    for told, runs in (("this project's PPO", ours), ("MaskablePPO of sb3-contrib", theirs)):
        ratios = [
            other.learning_s / own.learning_s for own, other in zip(runs, theirs, strict=True)
        ]
        regrets = [run.regret_cp for run in runs]
        rows.append(
            {
                "comparison": mode,
                "trainer": told,
                "scored_moves": moves,
                "seeds": len(runs),
                "command_s": round(statistics.median(run.command_s for run in runs), 1),
                "learning_s": round(statistics.median(run.learning_s for run in runs), 1),
                "times_faster_than_MaskablePPO": f"{statistics.median(ratios):.2f}",
                "regret_cp": f"{statistics.median(regrets):.1f} ({min(regrets):.1f} to {max(regrets):.1f})",
            }
        )
    return rows


def _trained(config: Any, seed: int) -> Run:
    from algorithms.comparison.variants import train_arguments
    from algorithms.reports.run_files import read_metrics

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        began = time.perf_counter()
        chess_lab(*train_arguments(config), "--seed", str(seed), "--run-dir", str(folder))
        command_s = time.perf_counter() - began
        return run_of(command_s, read_metrics(folder))


def run_of(command_s: float, rows: Sequence[Mapping[str, float | None]]) -> Run:
    """What a run took and came to, from its record."""
    learning_s = sum(row.get(name) or 0.0 for row in rows for name in STAGES)
    regrets = [regret for row in rows if (regret := row.get("eval/regret_cp")) is not None]
    return Run(command_s, learning_s, regrets[-1])
