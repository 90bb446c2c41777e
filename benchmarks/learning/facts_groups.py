"""What each group of further facts is worth: the `strong` run without it and without any, on the same seeds.

    python -m benchmarks.learning.facts_groups --puzzles puzzles.csv --out runs/facts --json facts_groups.json

Each run is `chess-lab train exact --preset strong`, with the narrow head of before, from random weights on one core.
It is measured by `chess-lab eval RUN --positions` and `--puzzles`. Finished runs are only measured.
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

MOVES = 2_400_000
HEAD_DIM = "32"
"""That of `--preset strong` until the facts `answers`."""
SEEDS = (11, 12, 13)
ALL, NONE = "all but answers", "no group"
GROUPS = tuple(name for name in FURTHER_GROUPS if name != "answers")
VARIANTS = {
    ALL: GROUPS,
    "answers too": FURTHER_GROUPS,
    **{f"without {name}": tuple(n for n in GROUPS if n != name) for name in GROUPS},
    NONE: (),
}
"""Name -> groups that the network reads. `answers` is added to the others, since it sees what two of them see."""


def measured(job: tuple[str, int], out: Path, moves: int, puzzles: Path) -> dict[str, Any]:
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
    }.items():
        file = folder / f"{name}.json"
        chess_lab("eval", str(folder), *flags, "--json", str(file))
        found[name] = json.loads(file.read_text())
    return {
        "variant": variant,
        "seed": seed,
        "regret_cp": greedy_of(found["positions"], "random_2_40")["regret_cp"],
        "puzzles_percent": 100 * found["puzzles"]["players"][0]["share"],
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
    shown = {
        measure: ", ".join(f"{run[measure]:.1f}" for run in own)
        for measure in ("regret_cp", "puzzles_percent")
    }
    return {
        "network reads": variant,
        "greedy regret by seed, cp": shown["regret_cp"],
        "difference to all but answers, cp": ""
        if variant == ALL
        else against_all(runs, variant, "regret_cp"),
        "puzzles by seed, %": shown["puzzles_percent"],
        "difference to all but answers, points": ""
        if variant == ALL
        else against_all(runs, variant, "puzzles_percent"),
        "CPU-seconds": round(sum(run["cpu_s"] for run in own) / len(own)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="run folders")
    parser.add_argument(
        "--puzzles", type=Path, required=True, help="rated puzzles in Lichess's CSV"
    )
    parser.add_argument("--moves", type=int, default=MOVES, help="of each run")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    todo = [(variant, seed) for variant in VARIANTS for seed in SEEDS]
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = list(
            pool.map(lambda job: measured(job, options.out, options.moves, options.puzzles), todo)
        )
    rows = [row_of(runs, variant) for variant in VARIANTS]
    print_table(rows)
    save(options.json, "facts_groups", rows, runs=runs, moves=options.moves)


if __name__ == "__main__":
    main()
