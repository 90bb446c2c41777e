"""Fits the cost model on some training runs and compares it with others: engines, boards, networks, processes.

    python -m benchmarks.scale.cost [--rounds 3] [--json PATH]

Fitted are the seconds of one engine for a position, seven runs with the built-in evaluator, and one with more engines
than cores. All others are predicted: other numbers of boards, engines and processes, and other sizes of network. Each
run is `chess-lab train grpo` without evaluations and diagnostics; the median of its updates counts, without the first
one, and the median of the rounds, in which the runs take turns in another order. The error is that of plies a second.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Mapping
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
_CLOCK_S = 1e-4  # what a stage takes at least, whatever the clocks' rounding says


class Case(NamedTuple):
    """A training run; engines are those of each process."""

    evaluator: str
    size: str
    boards: int
    engines: int = 1
    processes: int = 1

    @property
    def states(self) -> int:
        """Of an update: boards x plies."""
        return self.boards * PLIES


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
    Case("builtin", "small", 512, engines=4),
    Case("builtin", "medium", 512, processes=2),
    Case("stockfish:depth=4", "tiny", 64),
    Case("stockfish:depth=4", "medium", 64),
    Case("stockfish:depth=4", "medium", 64, engines=2),
    Case("stockfish:depth=4", "medium", 64, engines=3),
    Case("stockfish:depth=4", "tiny", 256, engines=4),
    Case("stockfish:depth=4", "large", 256, engines=2),
    Case("stockfish:depth=4", "small", 1024, engines=2),
    Case("stockfish:depth=4", "medium", 256, engines=1, processes=2),
    Case("stockfish:nodes=300", "medium", 256, engines=2),
)
NODES = (20, 400)
"""Between which an engine's seconds for a position are taken to grow evenly; `nodes=300` is predicted from them."""
ALONE = ("builtin", "stockfish:depth=4", *(f"stockfish:nodes={n}" for n in NODES))
"""Evaluators of which one engine is timed in every round."""


def seconds_a_position(evaluator: str, count: int = 1000) -> float:
    """Seconds of one engine for a position."""
    positions = random_positions(count, seed=5)
    with make_evaluator(evaluator, num_engines=1) as one:
        one.evaluate(positions[:100])
        began = time.perf_counter()
        one.evaluate(positions)
        return (time.perf_counter() - began) / count


def run(case: Case) -> dict[str, float]:
    """Median seconds of an update and its stages, and the positions that were scored for it."""
    slow = case.evaluator != "builtin"
    updates = max(3 if slow else 4, min(32, (2_048 if slow else 16_384) // case.states))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        chess_lab(
            "train", "grpo", "--device", "cpu", "--no-preflight", "--env.evaluator", case.evaluator,
            "--env.num-engines", str(case.engines), "--policy.size", case.size,
            # A policy that learns samples fewer different moves, and so has fewer positions scored.
            "--optimizer.learning-rate", "1e-9",
            "--rollout.num-envs", str(case.boards), "--total-moves", str(updates * case.states * GROUP),
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
    stages = zip(found["update_s"], found["rollout"], found["update"], strict=True)
    found["rest"] = [max(_CLOCK_S, whole - rollout - update) for whole, rollout, update in stages]
    return {name: statistics.median(values) for name, values in found.items()}


def measure(rounds: int) -> tuple[dict[Case, dict[str, float]], dict[str, float]]:
    """(medians of each case, seconds of one engine for a position by evaluator), all over the rounds."""
    order, found = random.Random(0), {case: [] for case in (*FITTED, CROWDED, *PREDICTED)}  # type: ignore[var-annotated]
    alone: dict[str, list[float]] = {name: [] for name in ALONE}
    for _ in range(rounds):
        for name, seconds in alone.items():
            seconds.append(seconds_a_position(name))
            print(f"{name}: {1e6 * seconds[-1]:.1f} us a position", flush=True)
        for case in order.sample(list(found), len(found)):
            found[case].append(run(case))
            print(f"{case}: {found[case][-1]['update_s']:.3f} s an update", flush=True)
    medians = {
        case: {name: statistics.median(each[name] for each in made) for name in made[0]}
        for case, made in found.items()
    }
    return medians, {name: statistics.median(seconds) for name, seconds in alone.items()}


def work_of(case: Case, positions: float) -> Work:
    """What an update of a case does, given the positions that are scored for a state."""
    states = case.states
    parameters, multiply_adds = counts(NetworkConfig(size=case.size))  # type: ignore[arg-type]
    return Work(states, PLIES, states / MINIBATCH, states * positions, multiply_adds, parameters)


def machines_of(case: Case, position_s: Mapping[str, float], cores: int) -> Machines:
    """What does the work of a case."""
    seconds = position_s[case.evaluator]
    return Machines(case.processes, case.engines, cores, seconds, case.evaluator != "builtin")


def with_nodes(alone: Mapping[str, float]) -> tuple[dict[str, float], float]:
    """(seconds of one engine for a position, by evaluator of a case; seconds for a node of Stockfish)."""
    few, many = (alone[f"stockfish:nodes={n}"] for n in NODES)
    node_s = (many - few) / (NODES[1] - NODES[0])
    kept = {name: alone[name] for name in ("builtin", "stockfish:depth=4")}
    return kept | {"stockfish:nodes=300": few + node_s * (300 - NODES[0])}, node_s


def fitted_to(
    found: Mapping[Case, Mapping[str, float]], position_s: Mapping[str, float], cores: int
) -> tuple[Coefficients, float, list[dict[str, Any]]]:
    """(coefficients, positions of a state, a row of the table for each case).

    Args:
        found: what `measure` gave.
        position_s: seconds of one engine for a position, by evaluator.
        cores: of the machine.
    """
    positions = statistics.mean(found[case]["positions"] / case.states for case in FITTED)
    known = {
        case: (work_of(case, positions), machines_of(case, position_s, cores)) for case in found
    }
    fitted = with_crowding(
        fit([(*known[case], found[case]) for case in FITTED]), (*known[CROWDED], found[CROWDED])
    )
    return fitted, positions, [row_of(case, found[case], known[case], fitted) for case in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    found, alone = measure(options.rounds)
    position_s, node_s = with_nodes(alone)
    fitted, positions, rows = fitted_to(found, position_s, cores)
    print_table(rows)
    errors = [abs(row["error_percent"]) for row in rows if row["fitted"] == "no"]
    print(f"largest error of a prediction {max(errors)} %, median {statistics.median(errors)} %")
    save(
        options.json, "cost_model", rows, rounds=options.rounds, positions_a_state=round(positions, 2),
        position_us={name: round(1e6 * value, 1) for name, value in position_s.items()},
        nodes_per_s=round(1 / node_s),
        coefficients={name: np.asarray(row).tolist() for name, row in fitted._asdict().items()},
    )  # fmt: skip


def row_of(
    case: Case,
    measured: Mapping[str, float],
    known: tuple[Work, Machines],
    fitted: Coefficients,
) -> dict[str, Any]:
    """A row of the table."""
    plies, predicted = (case.states / s for s in (measured["update_s"], update_s(*known, fitted)))
    stages = {
        f"{stage}_ms": round(1e3 * measured[stage]) for stage in ("rollout", "update", "rest")
    }
    return {
        **case._asdict(),
        **stages,
        "fitted": "yes" if case in (*FITTED, CROWDED) else "no",
        "plies_per_s": round(plies),
        "predicted": round(predicted),
        "error_percent": round(100 * (predicted / plies - 1)),
    }


if __name__ == "__main__":
    main()
