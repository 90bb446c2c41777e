"""Plies per CPU-second of the vector environment against a well-written python-chess loop, interleaved.

    python -m benchmarks.speed.vector_env [--json benchmarks/results/vector_env.json]

Both play random legal moves from the initial position and produce planes, mask, draw rules and automatic
restarts on every ply. Times are CPU time of this process pinned to one core, medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np

import chess_env  # noqa: F401 - registers the environment
from benchmarks.records.report import print_table, save
from benchmarks.speed.rivals.python_chess_loop import PythonChessLoop
from benchmarks.speed.rivals.python_chess_loop import play as play_rival


def vector_player(num_envs: int) -> Callable[[int], int]:
    env = gym.make_vec("ChessSelfPlay-v0", num_envs=num_envs, evaluator="none")
    rng = np.random.default_rng(0)
    rows = np.arange(num_envs)
    _, state = env.reset(seed=0)

    def play(plies: int) -> int:
        nonlocal state
        steps = -(-plies // num_envs)
        for _ in range(steps):
            slots = (rng.random(num_envs) * state["num_legal"]).astype(np.int64)
            _, _, _, _, state = env.step(state["legal_ids"][rows, slots])
        return steps * num_envs

    return play


def rate(play: Callable[[int], int], plies: int) -> float:
    start = time.process_time()
    played = play(plies)
    return played / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    loop, rng = PythonChessLoop(), random.Random(0)
    contestants: dict[str, tuple[Callable[[int], int], int]] = {
        "vector env, 64 boards": (vector_player(64), 200_000),
        "vector env, 1024 boards": (vector_player(1024), 200_000),
        "vector env, 1 board": (vector_player(1), 5_000),
        "python-chess loop": (lambda plies: play_rival(loop, rng, plies), 4_000),
    }
    for play, plies in contestants.values():  # compile and warm the caches
        play(plies // 10)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(arguments.rounds):
        for name, (play, plies) in contestants.items():
            rates[name].append(rate(play, plies))

    rival = rates["python-chess loop"]
    rows = []
    for name, values in rates.items():
        ratio = statistics.median(mine / other for mine, other in zip(values, rival, strict=True))
        rows.append(
            {
                "contestant": name,
                "plies_per_cpu_s": round(statistics.median(values)),
                "lowest": round(min(values)),
                "highest": round(max(values)),
                "times_python_chess": round(ratio, 1),
            }
        )
    print_table(rows)
    save(arguments.json, "vector_env", rows, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
