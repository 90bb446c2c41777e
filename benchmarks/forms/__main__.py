"""Plies per CPU-second of the vector environment in each form, against the default form of another commit.

    git worktree add /tmp/before COMMIT
    python -m benchmarks.forms --before /tmp/before [--rounds 9] [--json benchmarks/results/forms.json]

Each contestant is a process of its own, pinned to one core; they take turns, round by round. All draw uniform legal
moves from the same random numbers, and the benchmark checks that they play the same games. `ratio` is the median over
the rounds against the other commit's default form with the same kind of caller.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.records.command_line import ROOT
from benchmarks.records.contestant import Contestant
from benchmarks.records.report import print_table, save


class Form(NamedTuple):
    """What is asked of the environment, who calls it, and whether the code is the other commit's."""

    options: dict[str, Any]
    caller: str
    is_before: bool = False

    def shown(self) -> str:
        """The options as they are written."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items()) or "default"


LEAN = {"observation": "positions", "copy": False}
# Every comparison: the other commit's default form first.
COMPARISONS = {
    "one id read": [
        Form({}, "num_legal", is_before=True),
        Form({}, "num_legal"),
        Form({"copy": False}, "num_legal"),
        Form({"observation": "positions", "mask": "ids"}, "num_legal"),
        Form(LEAN | {"mask": "ids"}, "num_legal"),
    ],
    "whole mask read": [
        Form({}, "dense mask", is_before=True),
        Form({}, "dense mask"),
        Form({"copy": False}, "dense mask"),
        Form({"observation": "positions", "mask": "bits"}, "bits"),
        Form(LEAN | {"mask": "bits"}, "bits"),
    ],
    "one mask at a time": [
        Form({}, "one mask at a time", is_before=True),
        Form(LEAN | {"mask": "bits"}, "bits"),
    ],
}


def started(root: Path, num_envs: int, form: Form) -> Contestant:
    """A process that plays when asked for a number of plies, with the code in `root`."""
    task = {"num_envs": num_envs, "options": form.options, "caller": form.caller}
    player = ROOT / "benchmarks" / "forms" / "player.py"
    command = [sys.executable, str(player), json.dumps(task)]
    return Contestant(command, root, {**os.environ, "PYTHONPATH": str(root)})


def compared(
    before: Path, name: str, num_envs: int, plies: int, rounds: int
) -> list[dict[str, Any]]:
    """The rows of a comparison."""
    forms = COMPARISONS[name]
    contestants: list[Contestant] = []
    try:
        for form in forms:
            contestants.append(started(before if form.is_before else ROOT, num_envs, form))
            # Compiles, one after the other, and ends the first games, which end together.
            contestants[-1].ask(400 * num_envs)
        rates: list[list[float]] = [[] for _ in forms]
        for number in range(rounds):
            answers = {}
            order = range(len(forms)) if number % 2 == 0 else reversed(range(len(forms)))
            for index in order:
                answers[index] = contestants[index].ask(plies)
                rates[index].append(answers[index]["plies"] / answers[index]["cpu_s"])
            if len({answer["digest"] for answer in answers.values()}) > 1:
                raise RuntimeError(
                    f"{name}, {num_envs} boards: not all forms played the same games"
                )
    finally:
        for each in contestants:
            each.close()
    rows = []
    for form, mine in zip(forms, rates, strict=True):
        ratios = [now / then for now, then in zip(mine, rates[0], strict=True)]
        rows.append(
            {
                "caller": name,
                "boards": num_envs,
                "form": f"{form.shown()}{' (before)' if form.is_before else ''}",
                "plies_per_cpu_s": round(statistics.median(mine)),
                "ratio": round(statistics.median(ratios), 2),
                "lowest": round(min(ratios), 2),
                "highest": round(max(ratios), 2),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="a folder with the other commit")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--plies", type=int, default=200_000, help="of each contestant in a round")
    parser.add_argument("--boards", type=int, nargs="+", default=[64, 1024])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.before = options.before.resolve()
    rows = []
    for num_envs in options.boards:
        for name in COMPARISONS:
            rows += compared(options.before, name, num_envs, options.plies, options.rounds)
    print_table(rows)
    told = ["git", "-C", str(options.before), "rev-parse", "HEAD"]
    before = subprocess.run(told, capture_output=True, text=True).stdout.strip()
    save(options.json, "forms", rows, before=before, rounds=options.rounds, plies=options.plies)


if __name__ == "__main__":
    main()
