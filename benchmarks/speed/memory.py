"""Largest resident memory of a default training run on `resnet`: the trainer and its engines together (Linux).

    python -m benchmarks.speed.memory [--moves 16384] [--json benchmarks/results/memory.json]
    python -m benchmarks.speed.memory --growth [--json benchmarks/results/memory_growth.json]

Resident sizes are summed over the processes, so pages that the engines share (their network) count
once for each of them. With `--growth`, how much the trainer of a default run with the built-in evaluator grows
from update 200 to update 2,000: the medians of what is resident in the 20 updates after each.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.records.command_line import ROOT, command_of, updates_of
from benchmarks.records.report import print_table, save


def descendants(pid: int) -> list[int]:
    """The process and everything it started."""
    found = [pid]
    for parent in found:
        for thread in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # ended meanwhile
                found += [int(child) for child in thread.read_text().split()]
    return found


def resident_mb(pid: int) -> float:
    """Resident size of one process in MB; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0


def growth() -> list[dict[str, object]]:
    """Rows of what is resident in the trainer at two points of a run."""
    updates, window = (200, 2_000), 20
    found: dict[int, list[float]] = {update: [] for update in updates}
    with tempfile.TemporaryDirectory() as scratch:
        run, moves = Path(scratch) / "run", 2048 * (updates[-1] + 2 * window)
        command = command_of("train", "grpo", "--env.evaluator", "builtin", "--run-dir", str(run))
        command += ["--total-moves", str(moves)]
        trainer = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        while trainer.poll() is None:
            done = updates_of(run)
            for update in updates:
                if update <= done < update + window:
                    found[update].append(resident_mb(trainer.pid))
            time.sleep(0.05)
    if trainer.returncode:
        raise SystemExit(f"the training run ended with exit code {trainer.returncode}")
    sizes = {update: statistics.median(found[update]) for update in updates}
    return [
        {
            "update": update,
            "resident_mb": round(size, 1),
            "growth_percent": round(100 * (size / sizes[updates[0]] - 1), 1),
        }
        for update, size in sizes.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--moves", type=int, default=16_384, help="budget of the run that is watched"
    )
    parser.add_argument("--growth", action="store_true", help="from update 200 to update 2,000")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    if arguments.growth:
        grown = growth()
        print_table(grown)
        save(arguments.json, "memory_growth", grown)
        return
    peak = {"trainer": 0.0, "engines": 0.0, "together": 0.0}
    engines = 0
    with tempfile.TemporaryDirectory() as scratch:
        command = command_of("train", "grpo")
        command += ["--total-moves", str(arguments.moves), "--run-dir", f"{scratch}/run"]
        command += ["--policy.network", "resnet", "--env.evaluator", "stockfish:depth=4"]
        trainer = subprocess.Popen(command, cwd=ROOT)
        while trainer.poll() is None:
            sizes = [resident_mb(pid) for pid in descendants(trainer.pid)]
            peak["trainer"] = max(peak["trainer"], sizes[0])
            peak["engines"] = max(peak["engines"], sum(sizes[1:]))
            peak["together"] = max(peak["together"], sum(sizes))
            engines = max(engines, sum(size > 50 for size in sizes[1:]))
            time.sleep(0.1)
    if trainer.returncode:
        raise SystemExit(f"the training run ended with exit code {trainer.returncode}")
    rows = [{"part": part, "peak_resident_mb": round(mb)} for part, mb in peak.items()]
    print_table(rows)
    save(arguments.json, "memory", rows, moves=arguments.moves, engines=engines)


if __name__ == "__main__":
    main()
