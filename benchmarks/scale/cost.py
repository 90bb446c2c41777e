"""Fits the cost model on some training runs and compares it with others: engines, boards, networks, processes.

    python -m benchmarks.scale.cost [--rounds 3] [--json PATH]

Fitted are the seconds of one engine for a position, seven runs with the built-in evaluator, and one with more engines
than cores. All others are predicted: other numbers of boards, engines and processes, and other sizes of network. Each
run is `chess-lab train grpo` without evaluations and diagnostics; the median of its updates counts, without the first
one, and the median of the rounds, in which the runs take turns in another order. The error is that of scored moves a
second.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from algorithms.networks.settings import NetworkConfig
from algorithms.reports.run_files import read_metrics
from benchmarks.networks.sizes import counts
from benchmarks.records.command_line import chess_lab
from benchmarks.records.report import print_table, save
from benchmarks.scale.model import Coefficients, Machines, Work, fit, update_s, with_crowding
from benchmarks.speed.stockfish_pool import random_positions
from chess_env.evaluators import make_evaluator

PLIES, GROUP, MINIBATCH = 4, 8, 32  # of the default run
_NEVER = str(10**6)


class Case(NamedTuple):
    """A training run; engines are those of each process."""

    evaluator: str
    size: str
    boards: int
    engines: int = 1
    processes: int = 1


FITTED = (
    Case("builtin", "tiny", 64),
    Case("builtin", "large", 64),
    Case("builtin", "tiny", 1024),
    Case("builtin", "large", 1024),
    Case("builtin", "medium", 256),
    Case("builtin", "tiny", 64, processes=2),
    Case("builtin", "large", 1024, processes=2),
)
CROWDED = Case("stockfish:depth=4", "medium", 64, engines=4)
PREDICTED = (
    Case("builtin", "small", 128, engines=2),
    Case("builtin", "medium", 4096, engines=2),
    Case("builtin", "large", 256),
    Case("builtin", "medium", 512, processes=2),
    Case("stockfish:depth=4", "tiny", 64),
    Case("stockfish:depth=4", "medium", 64),
    Case("stockfish:depth=4", "medium", 64, engines=2),
    Case("stockfish:depth=4", "medium", 64, engines=3),
    Case("stockfish:depth=4", "large", 256, engines=2),
    Case("stockfish:depth=4", "small", 1024, engines=2),
    Case("stockfish:depth=4", "medium", 4096, engines=2),
    Case("stockfish:depth=4", "medium", 256, engines=1, processes=2),
    Case("stockfish:nodes=300", "medium", 256, engines=2),
)
NODES = (20, 400)
"""Between which an engine's seconds for a position are taken to grow evenly; `nodes=300` is predicted from them."""


def seconds_a_position(evaluator: str, rounds: int, count: int = 1000) -> float:
    """Median over rounds: seconds of one engine for a position."""
    positions, found = random_positions(count, seed=5), []
    with make_evaluator(evaluator, num_engines=1) as one:
        one.evaluate(positions[:100])
        for _ in range(rounds):
            began = time.perf_counter()
            one.evaluate(positions)
            found.append((time.perf_counter() - began) / count)
    return statistics.median(found)


def run(case: Case) -> dict[str, float]:
    """Median seconds of an update and its stages, and the positions that were scored for it."""
    states = case.boards * PLIES
    updates = 8 if states <= 2048 else 3
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        chess_lab(
            "train", "grpo", "--device", "cpu", "--no-preflight", "--env.evaluator", case.evaluator,
            "--env.num-engines", str(case.engines), "--policy.size", case.size,
            "--rollout.num-envs", str(case.boards), "--total-moves", str(updates * states * GROUP),
            "--num-shards", "2", "--num-processes", str(case.processes),
            "--eval-interval-updates", _NEVER, "--diagnostics-interval-updates", _NEVER,
            "--checkpoint-interval-updates", _NEVER, "--run-dir", str(folder),
        )  # fmt: skip
        rows = [row for row in read_metrics(folder) if "time/rollout_s" in row]
    pairs = list(itertools.pairwise(rows[:-1]))  # the last row has an evaluation in it
    found = {
        "update_s": [b["time/wall_s"] - a["time/wall_s"] for a, b in pairs],
        "rollout": [b["time/rollout_s"] for _, b in pairs],
        "update": [b["time/update_s"] for _, b in pairs],
        "positions": [b["rollout/engine_queries"] - a["rollout/engine_queries"] for a, b in pairs],
    }
    medians = {name: statistics.median(values) for name, values in found.items()}
    return medians | {"rest": medians["update_s"] - medians["rollout"] - medians["update"]}


def measure(rounds: int) -> dict[Case, dict[str, float]]:
    """Each case's medians over the rounds."""
    order, found = random.Random(0), {case: [] for case in (*FITTED, CROWDED, *PREDICTED)}  # type: ignore[var-annotated]
    for _ in range(rounds):
        for case in order.sample(list(found), len(found)):
            found[case].append(run(case))
            print(f"{case}: {found[case][-1]['update_s']:.3f} s an update", flush=True)
    return {
        case: {name: statistics.median(each[name] for each in made) for name in made[0]}
        for case, made in found.items()
    }


def work_of(case: Case, positions: float) -> Work:
    """What an update of a case does, given the positions that are scored for a state."""
    states = case.boards * PLIES
    parameters, multiply_adds = counts(NetworkConfig(size=case.size))  # type: ignore[arg-type]
    return Work(states, PLIES, states / MINIBATCH, states * positions, multiply_adds, parameters)


def machines_of(case: Case, position_s: dict[str, float], cores: int) -> Machines:
    """What does the work of a case."""
    seconds = position_s[case.evaluator]
    return Machines(case.processes, case.engines, cores, seconds, case.evaluator != "builtin")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    few, many = (seconds_a_position(f"stockfish:nodes={n}", options.rounds) for n in NODES)
    node_s = (many - few) / (NODES[1] - NODES[0])
    position_s = {
        "builtin": seconds_a_position("builtin", options.rounds),
        "stockfish:depth=4": seconds_a_position("stockfish:depth=4", options.rounds),
        "stockfish:nodes=300": few + node_s * (300 - NODES[0]),
    }
    found = measure(options.rounds)
    states = {case: case.boards * PLIES for case in found}
    positions = statistics.mean(found[case]["positions"] / states[case] for case in FITTED)
    known = {
        case: (work_of(case, positions), machines_of(case, position_s, cores)) for case in found
    }
    fitted = with_crowding(
        fit([(*known[case], found[case]) for case in FITTED]), (*known[CROWDED], found[CROWDED])
    )
    rows = [row_of(case, found[case]["update_s"], known[case], fitted) for case in found]
    print_table(rows)
    errors = [abs(row["error_percent"]) for row in rows if row["fitted"] == "no"]
    print(f"largest error of a prediction {max(errors)} %, median {statistics.median(errors)} %")
    save(
        options.json, "cost_model", rows, rounds=options.rounds, positions_a_state=round(positions, 2),
        position_us={name: round(1e6 * value, 1) for name, value in position_s.items()},
        nodes_per_s=round(1 / node_s), position_us_without_nodes=round(1e6 * (few - NODES[0] * node_s), 1),
        coefficients={name: np.asarray(row).tolist() for name, row in fitted._asdict().items()},
    )  # fmt: skip


def row_of(
    case: Case, measured_s: float, known: tuple[Work, Machines], fitted: Coefficients
) -> dict[str, Any]:
    """A row of the table."""
    moves = case.boards * PLIES * GROUP
    measured, predicted = moves / measured_s, moves / update_s(*known, fitted)
    return {
        **case._asdict(),
        "fitted": "yes" if case in (*FITTED, CROWDED) else "no",
        "moves_per_s": round(measured),
        "predicted": round(predicted),
        "error_percent": round(100 * (predicted / measured - 1)),
    }


if __name__ == "__main__":
    main()
