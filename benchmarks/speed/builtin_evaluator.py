"""Speed of the built-in evaluator and its agreement with a depth-14 Stockfish reference.

    python -m benchmarks.speed.builtin_evaluator --json benchmarks/results/builtin_evaluator.json

Speed: positions per CPU-second of this process on positions from random play, rounds interleaved.
Agreement: over the committed sample (`builtin_sample.py`), each move's delta = win%(after) - win%(before)
from the mover's view by the Lichess formula, minus the mean over the sampled moves of its position (what a
group-relative advantage sees), correlated with the same from the reference. Standard errors by bootstrap
over positions; `difference` pairs the evaluators on the same resamples.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.records.report import print_table, save
from benchmarks.speed.builtin_sample import Sample, load_sample
from chess_env.evaluators import make_evaluator
from chess_env.rules.fen import pack_fens
from chess_env.rules.rules import ONGOING, apply_batch, legal_actions_batch, status_batch

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
REFERENCE = "depth14"
SCALE = 0.00368208
MAX_PLIES = 80
RESAMPLES = 1_000


def random_play(count: int, seed: int, boards: int = 256) -> NDArray[np.uint64]:
    """uint64 [count, 8]: positions of uniformly random games of at most 80 plies, the initial one left out."""
    rng = np.random.default_rng(seed)
    start = pack_fens([START])
    games, ply = np.repeat(start, boards, axis=0), np.zeros(boards, int)
    seen: list[NDArray[np.uint64]] = []
    while sum(map(len, seen)) < count:
        over = (status_batch(games) != ONGOING) | (ply >= MAX_PLIES)
        games[over], ply[over] = start, 0
        legal_ids, num_legal = legal_actions_batch(games)
        drawn = (rng.random(boards) * num_legal).astype(int)
        games, ply = apply_batch(games, legal_ids[np.arange(boards), drawn]), ply + 1
        seen.append(games[status_batch(games) == ONGOING])
    return np.concatenate(seen)[:count]


def win_probability(score_cp: NDArray[np.integer]) -> NDArray[np.float64]:
    """float64: 2 Win% - 1 (lichess.org/page/accuracy)."""
    return np.asarray(2 / (1 + np.exp(-SCALE * score_cp)) - 1)


def clipped(score_cp: NDArray[np.integer]) -> NDArray[np.float64]:
    """float64: centipawns clipped to +-2000."""
    return np.clip(score_cp, -2000, 2000).astype(np.float64)


def centred(values: NDArray[np.float64], group: NDArray[np.intp]) -> NDArray[np.float64]:
    """float64: the values minus the mean of their group. The parent's score cancels here."""
    return values - (np.bincount(group, values) / np.maximum(np.bincount(group), 1))[group]


def moments(
    ours: NDArray[np.float64], reference: NDArray[np.float64], group: NDArray[np.intp]
) -> NDArray[np.float64]:
    """float64 [G, 3]: per position the sums of ours * reference, ours^2 and reference^2 of the centred moves."""
    a, b = centred(ours, group), centred(reference, group)
    return np.stack([np.bincount(group, product) for product in (a * b, a * a, b * b)], axis=1)


def correlation(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 [...]: correlation from sums [..., 3]."""
    return np.asarray(sums[..., 0] / np.sqrt(sums[..., 1] * sums[..., 2]))


def agreement(
    sample: Sample, scores: dict[str, NDArray[np.integer]], parents: dict[str, Any]
) -> list[dict[str, Any]]:
    """One row per evaluator: move-level and position-level correlation with the reference."""
    rng = np.random.default_rng(0)
    num_positions = len(sample.parents)
    resample = rng.integers(num_positions, size=(RESAMPLES, num_positions))
    rows, drawn_nodes1 = [], None
    for name, child_cp in scores.items():
        reference = sample.child_cp[REFERENCE]
        sums = moments(win_probability(-child_cp), win_probability(-reference), sample.group)
        drawn = correlation(sums[resample].sum(axis=1))
        drawn_nodes1 = drawn if drawn_nodes1 is None else drawn_nodes1
        cp_sums = moments(clipped(-child_cp), clipped(-reference), sample.group).sum(axis=0)
        by_source = [correlation(sums[sample.source == source].sum(axis=0)) for source in range(3)]
        position = np.corrcoef(
            win_probability(parents[name]), win_probability(sample.parent_cp[REFERENCE])
        )[0, 1]
        rows.append(
            {
                "evaluator": name,
                "win%_advantage_r": round(float(correlation(sums.sum(axis=0))), 4),
                "standard_error": round(float(drawn.std()), 4),
                "minus_nodes1": round(float((drawn - drawn_nodes1).mean()), 4),
                "minus_nodes1_se": round(float((drawn - drawn_nodes1).std()), 4),
                "random_games": round(float(by_source[0]), 3),
                "engine_games": round(float(by_source[1]), 3),
                "mixed_games": round(float(by_source[2]), 3),
                "cp2000_advantage_r": round(float(correlation(cp_sums)), 4),
                "win%_position_r": round(float(position), 4),
            }
        )
    return rows


def positions_per_cpu_s(work: Callable[[], int]) -> float:
    """Positions scored per second of this process's CPU time."""
    started = time.process_time()
    count = work()
    return count / (time.process_time() - started)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--positions", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=None, metavar="PATH")
    arguments = parser.parse_args()

    builtin, sample = make_evaluator("builtin"), load_sample()
    positions = random_play(arguments.positions, seed=1)
    parents = positions[:: max(1, len(positions) // 200)]

    def score_all_moves() -> int:
        return sum(map(len, builtin.score_moves(parents)))

    def score_in_chunks() -> int:
        return sum(
            len(builtin.evaluate(positions[i : i + 64])) for i in range(0, len(positions), 64)
        )

    contestants: dict[str, Callable[[], int]] = {
        "evaluate, one batch": lambda: len(builtin.evaluate(positions)),
        "evaluate, batches of 64": score_in_chunks,
        "score_moves (per move)": score_all_moves,
    }
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    builtin.evaluate(positions)  # compiles
    before = builtin.counters()
    builtin.evaluate(positions)
    after = builtin.counters()
    nodes = (after["nodes"] - before["nodes"]) / (
        after["unique_queries"] - before["unique_queries"]
    )
    for _ in range(arguments.rounds):
        for name, work in contestants.items():
            rates[name].append(positions_per_cpu_s(work))
    speed = [
        {
            "contestant": name,
            "positions_per_cpu_s": round(statistics.median(values)),
            "lowest": round(min(values)),
            "highest": round(max(values)),
        }
        for name, values in rates.items()
    ]
    print(f"{nodes:.1f} nodes per position of random play")
    print_table(speed)

    scores: dict[str, Any] = {
        "stockfish nodes=1": sample.child_cp["nodes1"],
        "stockfish depth=4": sample.child_cp["depth4"],
    }
    parent_scores: dict[str, Any] = {
        "stockfish nodes=1": sample.parent_cp["nodes1"],
        "stockfish depth=4": sample.parent_cp["depth4"],
    }
    scores[builtin.id] = builtin.evaluate(sample.children)
    parent_scores[builtin.id] = builtin.evaluate(sample.parents)
    rows = agreement(sample, scores, parent_scores)
    print(
        f"{len(sample.parents)} positions, {len(sample.children)} moves, reference Stockfish 15.1 depth 14"
    )
    print_table(rows)
    save(
        arguments.json,
        "builtin_evaluator",
        [*speed, *rows],
        rounds=arguments.rounds,
        positions=arguments.positions,
        nodes_per_position=round(nodes, 1),
        sample_positions=len(sample.parents),
        sample_moves=len(sample.children),
    )


if __name__ == "__main__":
    main()
