"""Scored moves a second of the default training run, of this code against that of another commit.

    git worktree add /tmp/before COMMIT
    python -m benchmarks.speed.train --before /tmp/before [--pairs 5] [--moves 100000] [--json PATH]

Each pair is the same command, with the same seed, in both folders; they take turns, in the other order each time. The
table has the median of the ratios, the lowest and the highest: of the moves a second of the whole command, start and
last evaluation included, and of the time from one update to the next. It is measured with Stockfish, with Stockfish
while another process keeps a core busy, and with the built-in evaluator. One short run in each folder comes first,
which compiles. The file also has the seconds of each stage of the command, medians over the runs: start and end
(imports, set-up, texts), rollouts, updates, and the rest (evaluations, matches, the record).
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from algorithms.reports.run_files import read_metrics
from benchmarks.records.command_line import ROOT, command_of
from benchmarks.records.report import print_table, save

EVALUATORS = {
    "stockfish": "stockfish",
    "stockfish, one core busy": "stockfish",
    "builtin": "builtin",
}


class Run(NamedTuple):
    """One run.

    Attributes:
        moves_per_s: scored moves a second of the whole command.
        update_s: from one update to the next, the median.
        losses: of all updates.
        stages_s: stage -> seconds of the command.
    """

    moves_per_s: float
    update_s: float
    losses: list[Any]
    stages_s: dict[str, float]


def run(root: Path, evaluator: str, moves: int, seed: int) -> Run:
    """One run of the code in a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        command = command_of("train", "grpo", "--env.evaluator", evaluator, "--total-moves", str(moves),
                             "--seed", str(seed), "--device", "cpu", "--run-dir", str(folder))  # fmt: skip
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True,
        )  # fmt: skip
        took_s = time.monotonic() - began
        if done.returncode:
            raise RuntimeError(
                f"{' '.join(command)} failed in {root}:\n{done.stdout}\n{done.stderr}"
            )
        rows = read_metrics(folder)
    clock = [row["time/wall_s"] for row in rows[1:]]
    between = [later - earlier for earlier, later in itertools.pairwise(clock)] or [took_s]
    losses = [row.get("train/loss") for row in rows]
    rollouts = sum(row.get("time/rollout_s", 0.0) for row in rows)
    updates = sum(row.get("time/update_s", 0.0) for row in rows)
    within = rows[-1]["time/wall_s"]
    rest = within - rollouts - updates
    stages = {
        "start and end": took_s - within,
        "rollouts": rollouts,
        "updates": updates,
        "rest": rest,
    }
    return Run(rows[-1]["scored_moves"] / took_s, statistics.median(between), losses, stages)


@contextmanager
def busy_core() -> Iterator[None]:
    """A process that computes for as long as the context lasts."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def compared(name: str, options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the row of an evaluator, "before" and "now" -> stage -> median seconds of the command)."""
    folders = {"before": options.before, "now": ROOT}
    found: dict[str, list[Run]] = {which: [] for which in folders}
    for pair in range(options.pairs):
        for which in list(folders) if pair % 2 == 0 else list(folders)[::-1]:
            with busy_core() if "busy" in name else nullcontext():
                made = run(folders[which], EVALUATORS[name], options.moves, options.seed + pair)
            found[which].append(made)
    pairs = list(zip(*found.values(), strict=True))
    whole = [now.moves_per_s / before.moves_per_s for before, now in pairs]
    updates = [before.update_s / now.update_s for before, now in pairs]
    stages = {
        which: {
            stage: round(statistics.median(each.stages_s[stage] for each in runs), 2)
            for stage in runs[0].stages_s
        }
        for which, runs in found.items()
    }
    row = {
        "evaluator": name,
        "before_moves_per_s": round(
            statistics.median(each.moves_per_s for each in found["before"])
        ),
        "now_moves_per_s": round(statistics.median(each.moves_per_s for each in found["now"])),
        "ratio": round(statistics.median(whole), 2),
        "lowest": round(min(whole), 2),
        "highest": round(max(whole), 2),
        "ratio_of_updates": round(statistics.median(updates), 2),
        "lowest_of_updates": round(min(updates), 2),
        "highest_of_updates": round(max(updates), 2),
        "same_losses": f"{sum(before.losses == now.losses for before, now in pairs)} of {len(pairs)}",
    }
    return row, stages


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="a folder with the other commit")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--moves", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first pair")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.before = options.before.resolve()
    for folder in (options.before, ROOT):
        run(folder, "builtin", 4096, 0)
    rows, stages = [], {}
    for name in EVALUATORS:
        row, stages[name] = compared(name, options)
        rows.append(row)
    print_table(rows)
    told = ["git", "-C", str(options.before), "rev-parse", "HEAD"]
    before = subprocess.run(told, capture_output=True, text=True).stdout.strip()
    save(
        options.json,
        "train_speed",
        rows,
        before=before,
        pairs=options.pairs,
        moves=options.moves,
        seed=options.seed,
        stages_s=stages,
    )


if __name__ == "__main__":
    main()
