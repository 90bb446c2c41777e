"""Largest resident memory of a default training run on `resnet`: the trainer and its engines together (Linux).

    python -m benchmarks.speed.memory [--moves 16384] [--json benchmarks/results/memory.json]

Resident sizes are summed over the processes, so pages that the engines share (their network) count
once for each of them.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.records.report import print_table, save

ROOT = Path(__file__).resolve().parents[2]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--moves", type=int, default=16_384, help="budget of the run that is watched"
    )
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    arguments = parser.parse_args()
    peak = {"trainer": 0.0, "engines": 0.0, "together": 0.0}
    engines = 0
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "algorithms.cli", "train", "grpo"]
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
