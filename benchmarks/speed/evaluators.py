"""Plies per CPU-second of the vector environment with each evaluator, interleaved round by round.

    python -m benchmarks.speed.evaluators [--json benchmarks/results/evaluators.json]

Random legal play from the initial position on 64 boards with default settings. The CPU time is that of this
process and of the engine processes. Medians over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

import chess_env  # noqa: F401 - registers the environment
from benchmarks.records.report import print_table, save

NUM_ENVS = 64
PLIES = {"none": 200_000, "builtin": 20_000, "stockfish:depth=4": 1_280}
"""Evaluator as `gym.make_vec` takes it -> plies of a round; the last is what "auto" becomes with Stockfish."""


class RandomPlay:
    """Random legal play on 64 boards.

    Attributes:
        evaluator_id: what the scores come from, with every setting; "none" without an evaluator.
    """

    def __init__(self, evaluator: str) -> None:
        self._env = gym.make_vec("ChessSelfPlay-v0", num_envs=NUM_ENVS, evaluator=evaluator)
        self._scores = self._env.unwrapped.evaluator  # type: ignore[attr-defined]
        self.evaluator_id = "none" if self._scores is None else self._scores.id
        self._rng = np.random.default_rng(0)
        _, self._state = self._env.reset(seed=0)

    def cpu_s(self) -> float:
        """CPU seconds of this process and of the engines so far."""
        engines = {} if self._scores is None else self._scores.counters()
        return time.process_time() + engines.get("engine_cpu_s", 0.0)

    def plies_per_cpu_s(self, plies: int) -> float:
        """Plies per CPU-second over at least this many plies."""
        rows, steps, start = np.arange(NUM_ENVS), -(-plies // NUM_ENVS), self.cpu_s()
        for _ in range(steps):
            slots = (self._rng.random(NUM_ENVS) * self._state["num_legal"]).astype(np.int64)
            _, _, _, _, self._state = self._env.step(self._state["legal_ids"][rows, slots])
        return steps * NUM_ENVS / (self.cpu_s() - start)

    def close(self) -> None:
        """None; ends the engines."""
        self._env.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()

    contestants = {name: RandomPlay(name) for name in PLIES}
    for name, play in contestants.items():  # compile and warm the caches
        play.plies_per_cpu_s(PLIES[name] // 10)
    rates: dict[str, list[float]] = {name: [] for name in PLIES}
    for _ in range(arguments.rounds):
        for name, play in contestants.items():
            rates[name].append(play.plies_per_cpu_s(PLIES[name]))
    rows = [
        {
            "evaluator": name,
            "plies_per_cpu_s": round(statistics.median(values)),
            "lowest": round(min(values)),
            "highest": round(max(values)),
        }
        for name, values in rates.items()
    ]
    print_table(rows)
    ids = {name: play.evaluator_id for name, play in contestants.items()}
    for play in contestants.values():
        play.close()
    save(
        arguments.json,
        "evaluators",
        rows,
        num_envs=NUM_ENVS,
        rounds=arguments.rounds,
        evaluators=ids,
    )


if __name__ == "__main__":
    main()
