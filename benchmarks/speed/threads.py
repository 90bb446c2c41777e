"""Plies a second of `make_vec` with move facts: 1,024 boards on two threads, and two processes of 512 boards beside.

    python -m benchmarks.speed.threads [--rounds 20] [--seconds 0.5] [--json PATH]

Every process plays random legal moves. The one process and the two take turns, in random order, and a ratio is that of
one round. Each process of 512 boards has one thread and a core of its own. The benchmark needs two cores, and nothing
else at work on them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import chess_env
from benchmarks.records.command_line import ROOT
from benchmarks.records.report import print_table, save

BOARDS = 1_024
FIRST_PLIES = 100
THREE_MEN = "8/8/8/8/8/4k3/8/K6Q w - - 0 1"
EVALUATORS = {"none": {"reward": "outcome"}, "builtin": {}}
FORMS = {
    "copies of planes and masks": {},
    "positions in place": {"observation": "positions", "mask": "ids", "copy": False},
}
STARTS = {
    "initial": {},
    "random, 64 plies": {"start_positions": "random_plies:2-40", "max_plies": 64},
}


class Boards:
    """A process that plays on some boards for some seconds when it is asked to."""

    def __init__(self, num_envs: int, num_threads: int, core: int | None, names: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "--play", *map(str, (num_envs, num_threads, core)), *names],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.answer()

    def ask(self, seconds: float) -> None:
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)

    def answer(self) -> float:
        """Plies a second of the last turn."""
        assert self._process.stdout is not None
        return float(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()


def play(num_envs: int, num_threads: int, core: int | None, names: list[str]) -> None:
    """Plays for as many seconds as each line of the standard input says, and prints plies a second."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    evaluator, form, starts = names
    settings: dict[str, Any] = EVALUATORS[evaluator] | FORMS[form] | STARTS[starts]
    vec = gym.make_vec(
        chess_env.ENV_ID, num_envs=num_envs, evaluator=evaluator, move_facts=True, num_threads=num_threads, **settings
    )  # fmt: skip
    rng, rows = np.random.default_rng(0), np.arange(num_envs)
    _, info = vec.reset(seed=0)

    def step() -> None:
        nonlocal info
        slots = (rng.random(num_envs) * info["num_legal"]).astype(np.int64)
        *_, info = vec.step(info["legal_ids"][rows, slots].astype(np.int64))

    for _ in range(FIRST_PLIES):
        step()
    if evaluator != "none":  # what is made once, when the first such position comes
        chess_env.make_evaluator(evaluator).evaluate([THREE_MEN])
    print(0, flush=True)
    for line in sys.stdin:
        began, plies = time.perf_counter(), 0
        while time.perf_counter() - began < float(line):
            step()
            plies += num_envs
        print(plies / (time.perf_counter() - began), flush=True)
    vec.close()


def measured(names: list[str], rounds: int, seconds: float) -> dict[str, Any]:
    """A row: plies a second of both forms, and the ratios of the rounds."""
    arms = {
        "threads": [Boards(BOARDS, 2, None, names)],
        "processes": [
            Boards(BOARDS // 2, 1, core, names) for core in sorted(os.sched_getaffinity(0))[:2]
        ],
    }
    found: dict[str, list[float]] = {name: [] for name in arms}
    order = np.random.default_rng(0)
    for _ in range(rounds):
        for name in order.permutation(list(arms)):
            found[name].append(sum(turn(arms[name], seconds)))
    for boards in itertools.chain(*arms.values()):
        boards.end()
    ratios = [one / two for one, two in zip(found["threads"], found["processes"], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "evaluator": names[0],
        "form": names[1],
        "starts": names[2],
        "two_threads": round(statistics.median(found["threads"])),
        "two_processes": round(statistics.median(found["processes"])),
        "ratio": round(statistics.median(ratios), 2),
        "quartiles": f"{low:.2f}-{high:.2f}",
    }


def turn(arm: list[Boards], seconds: float) -> list[float]:
    """Plies a second of each of the processes, which play at the same time."""
    for boards in arm:
        boards.ask(seconds)
    return [boards.answer() for boards in arm]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each turn")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--play", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        num_envs, num_threads, core, *names = options.play
        return play(int(num_envs), int(num_threads), None if core == "None" else int(core), names)
    rows = [
        measured(list(names), options.rounds, options.seconds)
        for names in itertools.product(EVALUATORS, FORMS, STARTS)
    ]
    print_table(rows)
    save(options.json, "threads", rows, rounds=options.rounds, seconds=options.seconds)


if __name__ == "__main__":
    main()
