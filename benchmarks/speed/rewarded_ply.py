"""Time of a rewarded ply outside the network: the vector environment against python-chess, one query at a time.

    python -m benchmarks.speed.rewarded_ply [--rounds 9] [--json PATH]

Random moves: planes, mask, endings, restarts and the reward of every ply. The environment plays 64 boards with two
engines, or with the built-in evaluator. The rival plays one board and waits for python-chess's engine client at every
ply, once clearing the engine before each query (as pure scores need) and once not. The contestants take turns; a row
has the median over rounds, and the median of the ratios to each rival within a round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np

import chess_env  # noqa: F401 - registers the environment
from benchmarks.records.report import print_table, save
from benchmarks.speed.rivals.python_chess_rewards import PythonChessRewards
from chess_env.evaluators.uci import find_stockfish

NUM_ENVS, DEPTH, ENGINES = 64, 4, 2
STOCKFISH = f"stockfish:depth={DEPTH}"
RIVALS = ("python-chess, pure", "python-chess, not cleared")


def random_play(evaluator: str) -> Callable[[int], object]:
    """Plays about so many plies on the environment."""
    env = gym.make_vec(
        "ChessSelfPlay-v0", num_envs=NUM_ENVS, evaluator=evaluator, num_engines=ENGINES
    )
    rng, (_, info) = np.random.default_rng(0), env.reset(seed=0)
    rows, seen = np.arange(NUM_ENVS), [info]

    def play(plies: int) -> None:
        for _ in range(plies // NUM_ENVS):
            slots = (rng.random(NUM_ENVS) * seen[0]["num_legal"]).astype(int)
            *_, seen[0] = env.step(seen[0]["legal_ids"][rows, slots])

    return play


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    path = find_stockfish()
    rivals = [PythonChessRewards(path, DEPTH, pure=pure) for pure in (True, False)]
    contestants: dict[str, tuple[Callable[[int], object], int]] = {
        STOCKFISH: (random_play(STOCKFISH), 2_048),
        "builtin": (random_play("builtin"), 65_536),
        # What version 2 costs.
        "stockfish-v1:depth=4": (random_play("stockfish-v1:depth=4"), 2_048),
        "builtin-v1": (random_play("builtin-v1"), 65_536),
        **{name: (rival.play, 400) for name, rival in zip(RIVALS, rivals, strict=True)},
    }
    us: dict[str, list[float]] = {name: [] for name in contestants}
    for play, plies in contestants.values():
        play(plies // 4)
    for _ in range(options.rounds):
        for name, (play, plies) in contestants.items():
            began = time.perf_counter()
            play(plies)
            us[name].append((time.perf_counter() - began) / plies * 1e6)
    for rival in rivals:
        rival.close()
    rows = []
    for name, found in us.items():
        row = {"contestant": name, "us_per_ply": round(statistics.median(found), 1)}
        for rival in RIVALS:
            ratios = [theirs / ours for ours, theirs in zip(found, us[rival], strict=True)]
            row[f"times_faster_than_{rival.split(', ')[1].replace(' ', '_')}"] = round(
                statistics.median(ratios), 1
            )
        rows.append(row)
    print_table(rows)
    save(
        options.json, "rewarded_ply", rows, rounds=options.rounds, boards=NUM_ENVS, engines=ENGINES
    )


if __name__ == "__main__":
    main()
