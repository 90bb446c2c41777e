"""Runs every cause of collapse and its cured twin, and judges the predicates.

    python -m benchmarks.learning.causes --runs runs/causes --json benchmarks/results/causes.json
    python -m benchmarks.learning.causes --network move_net --runs runs/move_net \\
        --json benchmarks/results/causes_move_net.json

The second is the first on another network. `--seeds-from COMMIT` takes seeds that nobody chose: the first five
different groups of four hexadecimal digits in the commit's full SHA-1, read as numbers. The doctor is judged by
`benchmarks.doctor`.

Each run is a process with one thread in a folder of its own under --runs; calling again with the same
arguments runs what is not finished. A broken run is named, and its predicates count as not held.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.collapse import CAUSES, COMPOSITES
from algorithms.collapse.cause import ARCHITECTURES, FIRST
from algorithms.comparison.executors import add_options, jobs_of, open_executor
from algorithms.comparison.grid import run_grid
from algorithms.comparison.grid_runs import GridResult, GridRun
from algorithms.comparison.ray_executor import ClusterError
from algorithms.run_folder.atomic_files import RunFolderError, read_json, replace_json
from benchmarks.records import causes as causes_record
from benchmarks.records.report import machine, print_table

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 3, 4, 5)
NUM_SEEDS = 5
ELAPSED = "elapsed.json"


def full_hash(commit: str) -> str:
    """The SHA-1 of a commit in this repository, 40 hexadecimal digits.

    Raises:
        ValueError: there is no such commit.
    """
    done = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise ValueError(f"--seeds-from is {commit!r}: expected a commit of this repository")
    return done.stdout.strip()


def seeds_of(digits: str) -> list[int]:
    """Five seeds: the first different groups of four hexadecimal digits, from the left.

    Raises:
        ValueError: no full SHA-1, or (about never) one with fewer different groups.
    """
    if not re.fullmatch(r"[0-9a-f]{40}", digits):
        raise ValueError(f"hash is {digits!r}: expected the 40 hexadecimal digits of a full SHA-1")
    groups = dict.fromkeys(int(digits[at : at + 4], 16) for at in range(0, 40, 4))
    if len(groups) < NUM_SEEDS:
        raise ValueError(f"hash {digits} gives only the seeds {list(groups)}: use another commit")
    return list(groups)[:NUM_SEEDS]


def grid_run(options: argparse.Namespace, name: str, side: str, seed: int) -> GridRun:
    """One run of a cause ("on") or of its twin ("cured")."""
    cured = ("--cured",) if side == "cured" else ()
    small = ("--smoke",) if options.smoke else ()
    network = () if options.network == FIRST else ("--network", options.network)
    what = (name, *cured, *network, "--seed", str(seed), *small)
    label = f"{name}-{side}-{seed}"
    return GridRun(label, ("causes", "run", *what), options.runs / label, resume=False)


def planned(options: argparse.Namespace) -> dict[tuple[str, str, int], GridRun]:
    """(name, side, seed) -> run; seed by seed, so that an early end leaves whole seeds."""
    keys = [(n, s, seed) for seed in options.seeds for n in options.causes for s in ("on", "cured")]
    if options.composites is not None:
        seeds = options.composites or options.seeds
        keys += [(name, "on", seed) for seed in seeds for name in COMPOSITES]
    return {key: grid_run(options, *key) for key in keys}


def measured(
    options: argparse.Namespace, plan: Mapping[tuple[str, str, int], GridRun], grid: GridResult
) -> dict[str, Any]:
    """The record of the matrix."""
    outcomes = {outcome.grid_run.name: outcome for outcome in grid.outcomes}
    results = {key: causes_record.load(outcomes[each.name]) for key, each in plan.items()}

    def record(name: str, sides: Sequence[str]) -> dict[str, Any]:
        runs = {
            side: [result for key, result in results.items() if key[:2] == (name, side)]
            for side in sides
        }
        cause = (CAUSES | COMPOSITES)[name].on_network(options.network)
        return causes_record.record(cause, runs)

    causes = {name: record(name, ("on", "cured")) for name in options.causes}
    wanted = COMPOSITES if options.composites is not None else {}
    composites = {name: record(name, ("on",)) for name in wanted}
    commits = sorted({result["commit"] for result in results.values() if result is not None})
    return {
        "benchmark": "causes",
        "settings": {
            "network": options.network,
            "seeds": options.seeds,
            "seeds_from": options.seeds_from,
            "composite_seeds": (options.composites or options.seeds) if wanted else [],
            "jobs": jobs_of(options),
            "smoke": options.smoke,
            "commit": ", ".join(commits) or None,
        },
        "machine": machine(),
        "failed": [each.name for key, each in plan.items() if results[key] is None],
        "causes": causes,
        "composites": composites,
        "wall": {
            **causes_record.wall(causes | composites),
            "elapsed_s": read_json(options.runs / ELAPSED).get("elapsed_s"),
        },
    }


def report(found: Mapping[str, Any], grid: GridResult) -> None:
    """None; prints the summary."""
    print()
    print_table(causes_record.summary(found["causes"]))
    if found["composites"]:
        print()
        print_table(causes_record.composite_rows(found["composites"]))
    spent = found["wall"]
    if spent["median_s"] is not None:
        print(f"runs: median {spent['median_s']:.1f} s, together {spent['total_s'] / 60:.1f} min; "
              f"elapsed {spent['elapsed_s'] / 60:.1f} min")  # fmt: skip
    print("\n".join(grid.lines()))


def run(options: argparse.Namespace) -> int:
    """Exit code of the grid: 0, 1 with a broken run, 128 + number of the signal that stopped it."""
    plan = planned(options)
    began = time.monotonic()
    with open_executor(
        options.runs.resolve(), jobs=jobs_of(options), ray=options.ray, cell_cpus=options.cell_cpus
    ) as executor:
        runs = list(plan.values())
        grid = run_grid(runs, options.runs, executor, retry_failed=options.retry_failed)
    # All calls of an interrupted matrix together.
    spent = read_json(options.runs / ELAPSED).get("elapsed_s", 0.0) + time.monotonic() - began
    replace_json(options.runs / ELAPSED, {"elapsed_s": spent})
    if grid.stopped_by is not None:
        print("\n".join([*grid.lines(), "stopped: the same command continues; nothing is written"]))
        return grid.exit_code
    found = measured(options, plan, grid)
    report(found, grid)
    if options.json is not None:
        causes_record.write(options.json, found)
    return grid.exit_code


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--causes", nargs="+", choices=CAUSES, default=list(CAUSES), metavar="NAME")
    parser.add_argument(
        "--composites", nargs="*", type=int, metavar="SEED",
        help="run the four replays too; with their own seeds, or those of the causes",
    )  # fmt: skip
    parser.add_argument("--network", choices=ARCHITECTURES, default=FIRST, help="what learns")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    which.add_argument("--seeds-from", metavar="COMMIT", help="derive five seeds from its SHA-1")
    add_options(parser, jobs=2)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs; continued")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--smoke", action="store_true", help="tiny runs: do the parts work?")
    parser.add_argument("--retry-failed", action="store_true", help="run broken runs once more")
    options = parser.parse_args()
    try:
        if options.seeds_from is not None:
            options.seeds_from = full_hash(options.seeds_from)
            options.seeds = seeds_of(options.seeds_from)
        return run(options)
    except (ValueError, ClusterError, RunFolderError) as error:
        print(f"benchmarks.learning.causes: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
