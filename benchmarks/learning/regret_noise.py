"""Regret of the held-out table's own judge by a deeper one, and of the teacher by the table.

    python -m benchmarks.learning.regret_noise [--write]

The judge plays the move that it scores best (the first of equal ones) in a sample of each slice. The same engine scores
the moves of these positions at `--depth`. Moves that the judge puts far below its best one are left out, which can only
lower the floor. The teacher plays the move whose position it scores best in every position of the slice. Regrets are as
in `algorithms.evaluation.regret`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.regret import SCORE_CLIP_CP, HeldoutSlice, move_regret_cp, prepare_slice
from algorithms.reports.noise import NOISE_PATH
from algorithms.reports.statistics import bootstrap_interval
from benchmarks.records.report import machine, print_table
from chess_env.evaluators import MATE_SCORE, Evaluator, make_evaluator
from chess_env.evaluators.protocol import scores_of
from chess_env.positions.heldout import load_heldout
from chess_env.rules.rules import children

WINDOW_CP = 300
"""Of the clipped scale: a move that the judge puts further below its best one is not asked of the deeper judge."""


def scored_by(evaluator: Evaluator, held: HeldoutSlice, asked: NDArray[np.bool_]) -> HeldoutSlice:
    """The slice with the evaluator's scores of the moves `asked` (bool [M, L]); the others get the lowest score.

    Each child is a position of its own, as in the table.
    """
    scores = np.where(held.legal_ids >= 0, -float(MATE_SCORE), 0.0)
    for row, position in enumerate(held.positions):
        slots = np.flatnonzero(asked[row])
        scores[row, slots] = -scores_of(evaluator, children(position)[0][slots])
    return dataclasses.replace(held, child_score_cp=scores)


def candidates(held: HeldoutSlice) -> NDArray[np.bool_]:
    """bool [M, L]: the legal moves within `WINDOW_CP` of the best one by the table."""
    legal = held.legal_ids >= 0
    clipped = np.clip(held.child_score_cp, -SCORE_CLIP_CP, SCORE_CLIP_CP)
    best = np.where(legal, clipped, -np.inf).max(axis=1, keepdims=True)
    found: NDArray[np.bool_] = legal & (clipped >= best - WINDOW_CP)
    return found


def part_of(held: HeldoutSlice, rows: NDArray[np.int64]) -> HeldoutSlice:
    """Some positions of a slice."""
    arrays = ("obs", "legal_ids", "child_score_cp", "num_legal", "positions")
    return dataclasses.replace(held, **{name: getattr(held, name)[rows] for name in arrays})


def best_slots(held: HeldoutSlice) -> NDArray[np.int64]:
    """int64 [M]: the slot of the move with the highest score, unclipped, in each position."""
    legal = held.legal_ids >= 0
    return np.where(legal, held.child_score_cp, -np.inf).argmax(axis=1)


def mean_regret(slots: NDArray[np.int64], judged: HeldoutSlice, seed: int) -> dict[str, float]:
    """Mean regret of the moves in `slots` by the scores of `judged`, with its interval."""
    regret = move_regret_cp(judged)[np.arange(len(slots)), slots]
    low, high = bootstrap_interval(regret, seed=seed)
    return {
        "mean_cp": round(float(regret.mean()), 2),
        "low_cp": round(low, 2),
        "high_cp": round(high, 2),
        "num_positions": len(slots),
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning.regret_noise",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument("--depth", type=int, default=12, help="of the deeper judge")
    parser.add_argument("--positions", type=int, default=100, help="sampled of each slice")
    parser.add_argument("--teacher", default="builtin-v1", help="evaluator that plays")
    parser.add_argument("--seed", type=int, default=0, help="of sample and bootstrap")
    parser.add_argument("--write", action="store_true", help=f"write {NOISE_PATH.name}")
    arguments = parser.parse_args()
    heldout, seed = load_heldout(), arguments.seed
    deeper = make_evaluator(f"stockfish-v1:depth={arguments.depth}", num_engines=1)
    teacher = make_evaluator(arguments.teacher)
    slices: dict[str, dict[str, dict[str, float]]] = {}
    rows: list[dict[str, Any]] = []
    try:
        for index, name in enumerate(heldout.slice_names):
            held = prepare_slice(heldout, name)
            count = min(arguments.positions, len(held.positions))
            sample = np.sort(
                np.random.default_rng([seed, index]).choice(len(held.positions), count, False)
            )
            sampled = part_of(held, sample)
            judged = scored_by(deeper, sampled, candidates(sampled))
            judge = mean_regret(best_slots(sampled), judged, seed)
            taught = best_slots(scored_by(teacher, held, held.legal_ids >= 0))
            slices[name] = {"judge": judge, "teacher": mean_regret(taught, held, seed)}
            for who, mean in slices[name].items():
                rows.append(
                    {
                        "slice": name,
                        "plays": who,
                        "regret_cp": mean["mean_cp"],
                        "low": mean["low_cp"],
                        "high": mean["high_cp"],
                        "positions": mean["num_positions"],
                    }
                )
            print(rows[-2:], flush=True)
        noise = {
            "judge_id": heldout.evaluator_id,
            "deeper_id": deeper.id,
            "teacher_id": teacher.id,
            "slices": slices,
        }
    finally:
        deeper.close()
        teacher.close()
    print_table(rows)
    if arguments.write:
        values = {**noise, "seed": seed, "machine": machine()}
        NOISE_PATH.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
