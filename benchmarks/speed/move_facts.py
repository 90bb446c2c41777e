"""Microseconds a position of the move-facts kernel and of what stands around it, interleaved on one core.

    python -m benchmarks.speed.move_facts [--json benchmarks/results/move_facts.json]

Positions come from random play of 2 to 60 plies. "all facts" is `move_facts_batch` with the legal moves given;
"legal moves" is what lists those. The environment plays random legal moves on 64 boards with and without
`move_facts=True`. Times are CPU times of this process pinned to one core, medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import chess_env
from benchmarks.records.report import print_table, save
from chess_env.move_facts import move_facts_batch
from chess_env.positions.start_positions import RandomPlies
from chess_env.rules.packed import Positions
from chess_env.rules.rules import legal_actions_batch

POSITIONS = 2000
BOARDS = 64


def environment(with_facts: bool) -> Callable[[], int]:
    """Plays as many plies as there are positions, on 64 boards."""
    env = gym.make_vec(chess_env.ENV_ID, num_envs=BOARDS, evaluator="none", move_facts=with_facts)
    rng, rows = np.random.default_rng(0), np.arange(BOARDS)
    _, state = env.reset(seed=0)

    def play() -> int:
        nonlocal state
        steps = POSITIONS // BOARDS
        for _ in range(steps):
            slots = (rng.random(BOARDS) * state["num_legal"]).astype(np.int64)
            _, _, _, _, state = env.step(state["legal_ids"][rows, slots])
        return steps * BOARDS

    return play


def asked(text: str | None) -> argparse.Namespace:
    """The options of a benchmark of facts, whose docstring is `text`; from here on it runs on one core."""
    parser = argparse.ArgumentParser(description=(text or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return parser.parse_args()


def drawn(seed: int) -> tuple[Positions, NDArray[np.int16], NDArray[np.int64]]:
    """(uint64 [N, 8] positions, int16 [N, L] their legal moves, int64 [N] how many)."""
    source, rng = RandomPlies(2, 60, exclude_heldout=False), np.random.default_rng(seed)
    positions = np.array([source.sample(rng) for _ in range(POSITIONS)])
    legal_ids, num_legal = legal_actions_batch(positions)
    return positions, np.ascontiguousarray(legal_ids[:, : num_legal.max()]), num_legal


def main() -> None:
    arguments = asked(__doc__)
    positions, legal_ids, num_legal = drawn(arguments.seed)

    def facts() -> int:
        move_facts_batch(positions, legal_ids)
        return POSITIONS

    def moves() -> int:
        legal_actions_batch(positions)
        return POSITIONS

    contestants: dict[str, Callable[[], int]] = {
        "all facts": facts,
        "legal moves": moves,
        "environment without facts": environment(False),
        "environment with facts": environment(True),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()  # compiled, and in the cache
    for _ in range(arguments.rounds):
        for name, run in contestants.items():
            start = time.process_time()
            done = run()
            times[name].append((time.process_time() - start) / done * 1e6)
    rows = [
        {
            "contestant": name,
            "us_per_position": round(statistics.median(values), 2),
            "lowest": round(min(values), 2),
            "highest": round(max(values), 2),
        }
        for name, values in times.items()
    ]
    print(f"{POSITIONS} positions, {num_legal.mean():.1f} legal moves each")
    print_table(rows)
    if arguments.json:
        save(arguments.json, "move_facts", rows)


if __name__ == "__main__":
    main()
