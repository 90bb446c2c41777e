"""Scored moves a second of wall time, by the number of processes that carry a run.

    python -m benchmarks.speed.processes [--processes 1 2] [--pairs 5] [--json PATH]

The run is `chess-lab train exact --preset strong` with the built-in evaluator, divided into as many shards as the most
processes, without evaluations and diagnostics: with its own boards and minibatches, and with 512 boards and minibatches
of 1,024. The numbers of processes take turns, in the other order each time, and each turn is compared with the first
number of its pair. All of them make the same record to the bit, which is checked.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from algorithms.reports.run_files import read_metrics
from benchmarks.records.command_line import ROOT, command_of
from benchmarks.records.report import print_table, save

_NEVER = str(10**6)
COMMAND = ("train", "exact", "--preset", "strong", "--device", "cpu", "--env.evaluator", "builtin", "--no-preflight",
           "--eval-interval-updates", _NEVER, "--diagnostics-interval-updates", _NEVER,
           "--checkpoint-interval-updates", _NEVER)  # fmt: skip


SIZES = {
    "strong": ("--total-moves", "600000"),
    "512 boards": ("--total-moves", "1500000", "--rollout.num-envs", "512", "--optimizer.minibatch-size", "1024"),
}  # fmt: skip


def moves_per_s(size: str, shards: int, processes: int, engines: int) -> tuple[float, Any]:
    """(moves a second between the first update and the last but one, the learned rows)."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        divided = ["--num-shards", str(shards), "--num-processes", str(processes)]
        more = [*divided, "--env.num-engines", str(engines), *SIZES[size]]
        command = command_of(*COMMAND, *more, "--run-dir", str(folder))
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        rows = read_metrics(folder)
    first, last = rows[1], rows[-2]  # the last row has the time of an evaluation
    moves = last["scored_moves"] - first["scored_moves"]
    learned = [row.get("train/loss") for row in rows]
    return moves / (last["time/wall_s"] - first["time/wall_s"]), learned


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--engines", type=int, default=2, help="threads of the evaluator, in all")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [row for size in SIZES for row in compared(size, options)]
    print_table(rows)
    save(options.json, "processes", rows, pairs=options.pairs, engines=options.engines)


def compared(size: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each number of processes."""
    counts, shards = options.processes, max(options.processes)
    found: dict[int, list[float]] = {count: [] for count in counts}
    for pair in range(options.pairs):
        learned = []
        for count in counts if pair % 2 == 0 else counts[::-1]:
            speed, losses = moves_per_s(size, shards, count, max(1, options.engines // count))
            found[count].append(speed)
            learned.append(losses)
        if any(losses != learned[0] for losses in learned):
            raise RuntimeError("the numbers of processes learned different things")
    rows = []
    for count in counts:
        pairs = zip(found[count], found[counts[0]], strict=True)
        ratios = [mine / first for mine, first in pairs]
        rows.append(
            {
                "settings": size,
                "shards": shards,
                "processes": count,
                "moves_per_s": round(statistics.median(found[count])),
                f"times_{counts[0]}": round(statistics.median(ratios), 2),
                "lowest": round(min(ratios), 2),
                "highest": round(max(ratios), 2),
            }
        )
    return rows


if __name__ == "__main__":
    main()
