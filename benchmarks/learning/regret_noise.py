"""Regret of the held-out table's own judge by a deeper one, and of the teacher by the table.

    python -m benchmarks.learning.regret_noise [--write]

The judge plays the move that it scores best (the first of equal ones) in a sample of each slice; all legal moves of
these positions are scored by the same engine at `--depth`. The teacher plays the move whose position it scores best in
every position of the slice. Regrets are as in `algorithms.evaluation.regret`.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.noise import NOISE_PATH, Mean, Noise, SliceNoise
from algorithms.evaluation.regret import HeldoutSlice, move_regret_cp, prepare_slice
from algorithms.reports.statistics import bootstrap_interval
from benchmarks.records.report import machine, print_table
from chess_env.evaluators import Evaluator, make_evaluator
from chess_env.evaluators.protocol import scores_of
from chess_env.positions.heldout import load_heldout
from chess_env.rules.rules import children


def scored_by(evaluator: Evaluator, held: HeldoutSlice, rows: NDArray[np.int64]) -> HeldoutSlice:
    """Rows of a slice with the evaluator's scores of its moves in place of the table's."""
    scores = np.zeros((len(rows), held.legal_ids.shape[1]))
    for at, row in enumerate(rows.tolist()):  # one position at a time: hours of work show progress
        position = held.positions[row : row + 1]
        own = children_scores(evaluator, position)
        scores[at, : len(own)] = own
    return HeldoutSlice(
        held.name,
        held.obs[rows],
        held.legal_ids[rows],
        scores,
        held.num_legal[rows],
        held.positions[rows],
    )


def children_scores(evaluator: Evaluator, position: NDArray[np.uint64]) -> NDArray[np.int64]:
    """int64 [L]: the score of every child of one position (uint64 [1, 8]), mover's view, as in the table."""
    return -scores_of(evaluator, children(position[0])[0]).astype(np.int64)


def best_slots(held: HeldoutSlice) -> NDArray[np.int64]:
    """int64 [M]: the slot of the move with the highest score, unclipped, in each position."""
    legal = held.legal_ids >= 0
    return np.where(legal, held.child_score_cp, -np.inf).argmax(axis=1)


def mean_regret(slots: NDArray[np.int64], judged: HeldoutSlice, seed: int) -> Mean:
    """Mean regret of the moves in `slots` by the scores of `judged`, with its interval."""
    regret = move_regret_cp(judged)[np.arange(len(slots)), slots]
    low, high = bootstrap_interval(regret, seed=seed)
    return Mean(round(float(regret.mean()), 2), round(low, 2), round(high, 2), len(slots))


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning.regret_noise",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument("--depth", type=int, default=14, help="of the deeper judge")
    parser.add_argument("--positions", type=int, default=100, help="sampled of each slice")
    parser.add_argument("--teacher", default="builtin", help="evaluator that plays")
    parser.add_argument("--seed", type=int, default=0, help="of sample and bootstrap")
    parser.add_argument("--write", action="store_true", help=f"write {NOISE_PATH.name}")
    arguments = parser.parse_args()
    heldout, seed = load_heldout(), arguments.seed
    deeper = make_evaluator(f"stockfish:depth={arguments.depth}", num_engines=1)
    teacher = make_evaluator(arguments.teacher)
    slices: dict[str, SliceNoise] = {}
    rows: list[dict[str, Any]] = []
    try:
        for index, name in enumerate(heldout.slice_names):
            held = prepare_slice(heldout, name)
            count = min(arguments.positions, len(held.positions))
            sample = np.sort(
                np.random.default_rng([seed, index]).choice(len(held.positions), count, False)
            )
            own = best_slots(held)[sample]
            judge = mean_regret(own, scored_by(deeper, held, sample), seed)
            everywhere = np.arange(len(held.positions))
            taught = best_slots(scored_by(teacher, held, everywhere))
            slices[name] = SliceNoise(judge, mean_regret(taught, held, seed))
            for who, mean in (("judge", judge), ("teacher", slices[name].teacher)):
                rows.append(
                    {
                        "slice": name,
                        "plays": who,
                        "regret_cp": mean.mean_cp,
                        "low": mean.low_cp,
                        "high": mean.high_cp,
                        "positions": mean.num_positions,
                    }
                )
            print(rows[-2:], flush=True)
        noise = Noise(heldout.evaluator_id, deeper.id, teacher.id, slices)
    finally:
        deeper.close()
        teacher.close()
    print_table(rows)
    if arguments.write:
        values = {**noise.to_dict(), "seed": seed, "machine": machine()}
        NOISE_PATH.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
