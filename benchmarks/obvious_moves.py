"""How often each evaluator's rewards pay a right move most on the committed set of obvious moves.

    python -m benchmarks.obvious_moves [--json benchmarks/results/obvious_moves.json]

`chess-lab check --evaluator` says the same of one evaluator. Seconds are of the wall clock, with two
engines or threads.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

from benchmarks.records.report import print_table, save
from chess_env.evaluators import make_evaluator
from chess_env.games.obvious_rewards import MIN_MARGIN, paid_positions, summaries
from chess_env.positions.obvious_moves import OBVIOUS_PATH, ObviousMoves, read_obvious

CASES = {
    "builtin-v1": ("builtin-v1", "win_prob_delta"),
    "builtin": ("builtin-v2", "win_prob_delta+mate_delta"),
    "stockfish-v1:depth=4": ("stockfish-v1:depth=4", "win_prob_delta"),
    "stockfish:depth=4": ("stockfish-v2:depth=4", "win_prob_delta+mate_delta"),
}
"""What a column of the table is called -> evaluator as `make_evaluator` takes it, and reward."""


def measured(
    case: str, obvious: ObviousMoves
) -> tuple[list[dict[str, Any]], dict[str, str | float]]:
    """(one row for each kind and "all", what the case is and took) of one of `CASES`."""
    name, reward = CASES[case]
    start = time.perf_counter()
    with_scores = make_evaluator(name)
    try:
        kinds = summaries(paid_positions(obvious.positions, with_scores, reward))
        took = {
            "evaluator_id": with_scores.id,
            "reward": reward,
            "seconds": round(time.perf_counter() - start, 1),
        }
    finally:
        with_scores.close()
    rows = [
        {
            "case": case,
            **{
                key: round(value, 4) if isinstance(value, float) else value
                for key, value in dataclasses.asdict(kind).items()
            },
        }
        for kind in kinds
    ]
    return rows, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--set", type=Path, default=OBVIOUS_PATH, help="another set than the committed one"
    )
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()

    obvious = read_obvious(arguments.set)
    rows, cases = [], {}
    for case in CASES:
        of_case, cases[case] = measured(case, obvious)
        rows += of_case
    print_table(rows)
    save(
        arguments.json,
        "obvious_moves",
        rows,
        cases=cases,
        min_margin=MIN_MARGIN,
        seed=obvious.seed,
    )


if __name__ == "__main__":
    main()
