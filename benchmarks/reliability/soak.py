"""Trains for a long time while its engines are killed and stopped and its tracker hangs and fails, and once without.

    python -m benchmarks.reliability.soak [--minutes 30] [--seed 0] [--json PATH]     (make test-soak; Linux)

`chess-lab train` is disturbed for half of the minutes, from its first row on, and then asked to end by SIGTERM. The
same run then makes as many updates undisturbed; only its budget differs, on which none of its settings depends. Both
must come to the same weights, optimizer, generators and rows to the bit. What the trainer holds is read twice
a second; `growth` in `watching.py` has the rule of the warm-up. Four hours are `--minutes 240`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from algorithms.run_folder import checkpoint
from benchmarks.records.command_line import ROOT
from benchmarks.records.report import print_table, save
from benchmarks.reliability.boundaries import outcome
from benchmarks.reliability.faults import Faults
from benchmarks.reliability.watching import Sample, growth, parts, sample

MOST_GROWTH_PERCENT = 2.0
COMMAND = ("train", "grpo", "--smoke", "--env.evaluator", "stockfish:depth=4", "--device", "cpu", "--track", "wandb",
           "--regularizer.ent-coef-final", "None", "--optimizer.lr-final", "None",
           "--rollout.num-envs", "16", "--rollout.num-plies", "2",
           "--eval-interval-updates", "50", "--diagnostics-interval-updates", "50",
           "--checkpoint-interval-updates", "50")  # fmt: skip
_TRACKER = Path(__file__).parent / "faulty_tracker"
_ENDLESS = 10**12
_FAIL_AT = 0.75
"""Share of the disturbed time after which the tracker fails."""
_EVERY_S, _LOOK_S = 0.5, 0.1


class Soaked(NamedTuple):
    """What was seen of a run.

    Attributes:
        samples: what it held, from its first row on.
        faults: that happened, by kind.
        left: processes of it that went on after its end.
        shown: steps of the rows that its tracker was shown.
    """

    samples: list[Sample]
    faults: Mapping[str, int]
    left: int
    shown: list[int]


def soaked(run_dir: Path, moves: int, seed: int, disturbed_s: float | None = None) -> Soaked:
    """Trains, and watches it.

    Args:
        run_dir: the run folder.
        moves: the budget.
        seed: of the run and of the faults.
        disturbed_s: seconds of faults, after which the run is asked to end; None leaves it in peace.

    Raises:
        RuntimeError: it failed; the message is what it printed.
    """
    tracker, log = run_dir.with_suffix(".tracker"), run_dir.with_suffix(".log")
    tracker.mkdir()
    (tracker / "shown").touch()
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{_TRACKER}{os.pathsep}{ROOT}",
        "SOAK_TRACKER": str(tracker),
    }
    command = [sys.executable, "-P", "-m", "algorithms.cli", *COMMAND, "--seed", str(seed)]
    command += ["--total-moves", str(moves), "--run-dir", str(run_dir)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        samples, faults = _watched(process, run_dir, tracker, seed, disturbed_s)
    finally:
        process.kill()
        process.wait()
    if process.returncode != (0 if disturbed_s is None else 128 + signal.SIGTERM):
        raise RuntimeError(f"exit code {process.returncode}: {log.read_text()[-4000:]}")
    started = {child for each in samples for child in each.children}
    shown = [int(line) for line in (tracker / "shown").read_text().split()]
    return Soaked(samples, faults, len([pid for pid in started if _is_engine(pid)]), shown)


def _watched(
    process: subprocess.Popen[bytes],
    run_dir: Path,
    tracker: Path,
    seed: int,
    disturbed_s: float | None,
) -> tuple[list[Sample], Mapping[str, int]]:
    """(samples, faults that happened) until the process ends."""
    record = run_dir / "metrics.jsonl"
    while process.poll() is None and not (record.exists() and record.stat().st_size):
        time.sleep(_LOOK_S)
    samples: list[Sample] = []
    begun, disturbed = time.monotonic(), disturbed_s is not None
    faults = Faults(process.pid, tracker, seed, _FAIL_AT * (disturbed_s or 0.0))
    while process.poll() is None:
        now_s = time.monotonic() - begun
        if now_s >= _EVERY_S * len(samples):
            with contextlib.suppress(FileNotFoundError):  # it has just ended
                samples.append(sample(process.pid, begun))
        if disturbed and disturbed_s is not None:
            faults.happen()
            if now_s >= disturbed_s:
                faults.end()
                process.send_signal(signal.SIGTERM)
                disturbed = False
        time.sleep(_LOOK_S)
    return samples, faults.counts


def _is_engine(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().startswith("stockfish")
    return False


def _came_to(run_dir: Path) -> dict[str, Any]:
    """What a run came to, without how often an engine was replaced."""
    came_to = outcome(run_dir)
    for row in came_to["rows"]:
        row.pop("rollout/engine_restarts", None)
    return came_to


def _row(name: str, run: Soaked, run_dir: Path) -> dict[str, Any]:
    newest = checkpoint.load_newest(run_dir / "checkpoints")
    minutes = run.samples[-1].at_s / 60
    return {
        "run": name,
        "minutes": round(minutes, 2),
        "updates": newest.state["progress"]["update"],
        **growth(run.samples),
        "processes_left": run.left,
        **run.faults,
    }


def found(
    runs: Mapping[str, Soaked], folders: Mapping[str, Path]
) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """(a row for each run, what held), of the disturbed run and of the undisturbed one, in this order."""
    rows = [_row(name, runs[name], folders[name]) for name in runs]
    disturbed, undisturbed = (_came_to(folders[name]) for name in runs)
    shown = runs["disturbed"].shown
    verdicts = {
        "weights_equal": disturbed["tensors"] == undisturbed["tensors"],
        **{
            f"{part}_equal": disturbed[part] == undisturbed[part]
            for part in ("rows", "state", "files")
        },
        "memory_flat": rows[0]["memory_growth_percent"] < MOST_GROWTH_PERCENT,
        **{
            f"{what}_flat": rows[0][f"{what}_at_end"] <= rows[0][f"{what}_at_start"]
            for what in ("descriptors", "processes")
        },
        "no_process_left": not any(row["processes_left"] for row in rows),
        "no_row_lost_by_a_tracker_that_hung": shown == list(range(len(shown))),
    }
    return rows, verdicts


def main() -> None:
    """Prints what was found and writes it as JSON if asked; exit code 1 where something did not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="of both runs, about")
    parser.add_argument("--seed", type=int, default=0, help="of the run and the faults")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # So that the run that is watched ends with this process.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as name:
        folders = {run: Path(name) / run for run in ("disturbed", "undisturbed")}
        disturbed = soaked(folders["disturbed"], _ENDLESS, options.seed, 30 * options.minutes)
        progress = checkpoint.load_newest(folders["disturbed"] / "checkpoints").state["progress"]
        # One move less than another rollout needs.
        moves = progress["scored_moves"] + progress["largest_rollout"] - 1
        undisturbed = soaked(folders["undisturbed"], moves, options.seed)
        runs = {"disturbed": disturbed, "undisturbed": undisturbed}
        rows, verdicts = found(runs, folders)
    print_table(rows)
    print_table([{"verdict": what, "holds": held} for what, held in verdicts.items()])
    save(
        options.json,
        "soak",
        rows,
        minutes=options.minutes,
        seed=options.seed,
        command=list(COMMAND),
        **verdicts,
        parts={run: parts(seen.samples) for run, seen in runs.items()},
    )
    sys.exit(not all(verdicts.values()))


if __name__ == "__main__":
    main()
