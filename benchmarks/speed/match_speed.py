"""Time a ply of a policy's games against a random player: the arena against python-chess loops.

    python -m benchmarks.speed.match_speed [--json benchmarks/results/match_speed.json]

A match of 200 games of the shipped policy (greedy) in the arena, and games of the same policy one by one on
python-chess, from the same openings, with the same ply limit and draw rules; interleaved rounds, medians of the
rounds' ratios. `without_network` leaves out the time inside the network's forward pass, on both sides. Everything
is timed with one thread for the network and with one for each core, by the wall clock: the machine must be idle.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import numpy as np
import torch

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.policy_player import GREEDY, PolicyPlayer
from benchmarks.records.report import print_table, save
from benchmarks.speed.rivals import python_chess_match
from chess_env.games.players import RandomPlayer
from chess_env.matches.arena import MATCH_PLIES, draw_openings, play_match
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import to_fen


class TimedPolicy:
    """The policy, with the time spent in its forward passes."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.seconds, self.rows = policy, 0.0, 0
        self.reads_move_facts = policy.reads_move_facts

    def outputs(self, obs: torch.Tensor, *inputs: Any) -> Any:
        start = time.perf_counter()
        outputs = self.policy.outputs(obs, *inputs)
        self.seconds += time.perf_counter() - start
        self.rows += len(obs)
        return outputs

    def eval(self) -> TimedPolicy:
        return self

    def parameters(self) -> Any:
        return self.policy.parameters()


def arena(policy: TimedPolicy, games: int, seed: int) -> int:
    """Number of plies played in the arena."""
    result = play_match(
        PolicyPlayer(policy, temperature=GREEDY, label="policy"),
        RandomPlayer(),
        openings=make_start_positions("openings"),
        pairs=games // 2,
        seed=seed,
        max_plies=MATCH_PLIES,
    )
    return sum(len(game.actions) for game in result.games)


def one_by_one(play: Callable[..., int], policy: TimedPolicy, games: int, seed: int) -> int:
    """Number of plies played on python-chess."""

    @torch.inference_mode()
    def choose(planes: np.ndarray, actions: np.ndarray) -> int:
        outputs = policy.outputs(
            torch.from_numpy(planes)[None], torch.from_numpy(actions)[None], 1.0
        )
        return int(outputs.dist.logprobs.argmax())

    rng = random.Random(seed)
    openings = draw_openings(make_start_positions("openings"), seed, games // 2)
    plies = 0
    for opening in openings:
        for policy_is_white in (True, False):
            board = chess.Board(to_fen(opening))
            plies += play(board, policy_is_white, choose, rng, MATCH_PLIES)
    return plies


def measured(
    play: Callable[[TimedPolicy, int, int], int], policy: Any, games: int, seed: int
) -> tuple[float, float]:
    """(microseconds a ply, the same without the network) by the wall clock."""
    timed = TimedPolicy(policy)
    start = time.perf_counter()
    plies = play(timed, games, seed)
    seconds = time.perf_counter() - start
    return 1e6 * seconds / plies, 1e6 * (seconds - timed.seconds) / plies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--games", type=int, default=200, help="of the arena in each round")
    parser.add_argument("--rival-games", type=int, default=10, help="of each rival in each round")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    cores = os.cpu_count() or 1
    if os.getloadavg()[0] > 0.5:
        print(
            f"load {os.getloadavg()[0]:.1f}: times by the wall clock need an idle machine",
            file=sys.stderr,
        )
    policy = load_policy("warm")

    contestants: dict[str, tuple[Callable[[TimedPolicy, int, int], int], int]] = {
        f"arena, {arguments.games} games together": (arena, arguments.games),
        "python-chess loop, tuned": (
            lambda timed, games, seed: one_by_one(python_chess_match.tuned, timed, games, seed),
            arguments.rival_games,
        ),
        "python-chess loop, plain": (
            lambda timed, games, seed: one_by_one(python_chess_match.plain, timed, games, seed),
            arguments.rival_games,
        ),
    }
    for play, _ in contestants.values():  # compile and warm the caches
        measured(play, policy, 2, 0)
    threads = sorted({1, cores})
    found: dict[tuple[int, str], list[tuple[float, float]]] = {
        (count, name): [] for count in threads for name in contestants
    }
    for seed in range(1, arguments.rounds + 1):
        for count in threads:
            torch.set_num_threads(count)
            for name, (play, games) in contestants.items():
                found[count, name].append(measured(play, policy, games, seed))

    rows = []
    for (count, name), values in found.items():
        ratios = np.array(values) / np.array(found[count, next(iter(contestants))])
        rows.append(
            {
                "contestant": name,
                "threads": count,
                "us_per_ply": round(statistics.median(whole for whole, _ in values), 1),
                "lowest": round(min(whole for whole, _ in values), 1),
                "highest": round(max(whole for whole, _ in values), 1),
                "times_arena": round(float(np.median(ratios[:, 0])), 2),
                "us_without_network": round(statistics.median(rest for _, rest in values), 2),
                "times_arena_without_network": round(float(np.median(ratios[:, 1])), 1),
            }
        )
    print_table(rows)
    save(
        arguments.json,
        "match_speed",
        rows,
        rounds=arguments.rounds,
        games=arguments.games,
        rival_games=arguments.rival_games,
    )


if __name__ == "__main__":
    main()
