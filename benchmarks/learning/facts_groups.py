"""What each group of further facts is worth: the `strong` run without it and without any, on the same seeds.

    python -m benchmarks.learning.facts_groups --puzzles puzzles.csv --epd suite.epd --out runs/facts --json FILE

Each run is `chess-lab train exact --preset strong`, with a narrow head, from random weights on one core.
It is measured by `chess-lab eval RUN --positions`, `--puzzles` and `--epd`. Finished runs are only measured.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from algorithms.reports.run_files import read_metrics
from algorithms.reports.statistics import difference_interval
from benchmarks.learning.strong import greedy_of
from benchmarks.records.command_line import chess_lab
from benchmarks.records.report import print_table, save
from chess_env.move_facts import FURTHER_GROUPS

MOVES = 1_200_000
HEAD_DIM = "32"
"""Narrow, so that the runs are short."""
SEEDS = (11, 12, 13)
ALL, NONE = "all groups", "no group"
VARIANTS = {
    ALL: FURTHER_GROUPS,
    **{f"without {left}": tuple(n for n in FURTHER_GROUPS if n != left) for left in FURTHER_GROUPS},
    NONE: (),
}
"""Name -> groups that the network reads."""


MEASURES = {
    "regret_cp": ("greedy regret by seed, cp", f"difference to {ALL}, cp"),
    "puzzles_percent": ("puzzles by seed, %", f"difference to {ALL}, points"),
    "suite_percent": ("suite by seed, %", f"difference to {ALL}, points of it"),
}
"""Measure -> the two columns of the table."""


def measured(
    job: tuple[str, int], out: Path, moves: int, puzzles: Path, suite: Path
) -> dict[str, Any]:
    """The figures of one run, which is made where it is missing."""
    variant, seed = job
    folder = out / f"{variant.replace(' ', '-')}-{seed}"
    if not (folder / "checkpoints").exists():
        settings = ("--total-moves", str(moves), "--seed", str(seed), "--run-dir", str(folder))
        chess_lab(
            "train",
            "exact",
            "--preset",
            "strong",
            *settings,
            "--policy.head-dim",
            HEAD_DIM,
            "--policy.facts",
            *VARIANTS[variant],
        )
    found = {}
    for name, flags in {
        "positions": ("--positions",),
        "puzzles": ("--puzzles", str(puzzles)),
        "suite": ("--epd", str(suite)),
    }.items():
        file = folder / f"{name}.json"
        chess_lab("eval", str(folder), *flags, "--json", str(file))
        found[name] = json.loads(file.read_text())
    return {
        "variant": variant,
        "seed": seed,
        "regret_cp": greedy_of(found["positions"], "random_2_40")["regret_cp"],
        "puzzles_percent": 100 * found["puzzles"]["players"][0]["share"],
        "suite_percent": 100 * found["suite"]["players"][0]["kinds"][-1]["share"],
        "cpu_s": read_metrics(folder)[-1]["time/cpu_s"],
    }


def against_all(runs: list[dict[str, Any]], variant: str, measure: str) -> str:
    """Mean difference to the `ALL` run of the same seed, and its 95 % interval."""
    of = {(run["variant"], run["seed"]): run[measure] for run in runs}
    differences = [of[variant, seed] - of[ALL, seed] for seed in SEEDS]
    interval, mean = difference_interval(differences), sum(differences) / len(differences)
    return f"{mean:+.1f} ({interval.low:+.1f} to {interval.high:+.1f})"


def row_of(runs: list[dict[str, Any]], variant: str) -> dict[str, Any]:
    """A line of the table."""
    own = [run for run in runs if run["variant"] == variant]
    row = {"network reads": variant}
    for measure, (shown, difference) in MEASURES.items():
        row[shown] = ", ".join(f"{run[measure]:.1f}" for run in own)
        row[difference] = "" if variant == ALL else against_all(runs, variant, measure)
    return row | {"CPU-seconds": round(sum(run["cpu_s"] for run in own) / len(own))}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="run folders")
    parser.add_argument(
        "--puzzles", type=Path, required=True, help="rated puzzles in Lichess's CSV"
    )
    parser.add_argument("--epd", type=Path, required=True, help="a suite of positions")
    parser.add_argument("--moves", type=int, default=MOVES, help="of each run")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    todo = [(variant, seed) for variant in VARIANTS for seed in SEEDS]
    given = options.out, options.moves, options.puzzles, options.epd
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(lambda job: measured(job, *given), todo))
    rows = [row_of(runs, variant) for variant in VARIANTS]
    print_table(rows)
    save(options.json, "facts_groups", rows, runs=runs, moves=options.moves)


if __name__ == "__main__":
    main()
