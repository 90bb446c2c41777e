"""Counts the flipped bits of a run's record and settings that pass unseen.

    python -m benchmarks.reliability.flips [--flips 200] [--seed 0] [--json PATH]

A run of two updates is made. In a copy of its folder one random bit of a file is flipped, then `chess-lab report`,
`chess-lab diagnose` and `chess-lab train --resume` are called. A flip is unseen by a command that ends as it does on
the whole folder and says nothing else: the page's notes, the diagnosis, the standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from algorithms import cli
from benchmarks.records.report import print_table, save

SMOKE = ("train", "grpo", "--smoke", "--env.evaluator", "builtin", "--device", "cpu", "--total-moves", "2048",
         "--diagnostics-interval-updates", "1")  # fmt: skip
FILES = ("config.json", "metrics.jsonl")
COMMANDS = ("report", "diagnose", "resume")
NAMED = re.compile(r"checksum|damaged|no UTF-8 text|cut off")


def answer(*arguments: object) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a command of `chess-lab`."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main([str(each) for each in arguments])
        except SystemExit as left:
            code = int(left.code or 0)
    return code, out.getvalue(), err.getvalue()


def silent(folder: Path) -> dict[str, bool]:
    """For each command whether it says nothing of damage."""
    found = {}
    code, _, _ = answer("report", folder)
    page = folder / "report.html"
    found["report"] = code == 0 and not NAMED.search(page.read_text(encoding="utf-8"))
    code, out, _ = answer("diagnose", folder)
    found["diagnose"] = code != 2 and not NAMED.search(out)
    code, _, _ = answer("train", "--resume", folder)
    found["resume"] = code == 0
    return found


def flipped(folder: Path, name: str, bit: int, scratch: Path) -> dict[str, bool]:
    """What is silent of a copy of the folder with one bit flipped."""
    copy = scratch / "copy"
    shutil.copytree(folder, copy, symlinks=True)
    try:
        data = bytearray((copy / name).read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        (copy / name).write_bytes(data)
        return silent(copy)
    finally:
        shutil.rmtree(copy)


def main() -> None:
    """Prints the counts and writes them as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flips", type=int, default=200, help="of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        folder = scratch / "run"
        code, out, err = answer(*SMOKE, "--run-dir", folder)
        if code:
            sys.exit(out + err)
        whole = silent(shutil.copytree(folder, scratch / "whole", symlinks=True))
        if not all(whole.values()):
            sys.exit(f"a folder without damage is said to be damaged: {json.dumps(whole)}")
        rng = np.random.default_rng(options.seed)
        for file in FILES:
            size = os.path.getsize(folder / file)
            unseen: Counter[str] = Counter()
            for bit in rng.integers(8 * size, size=options.flips).tolist():
                unseen.update({k: int(v) for k, v in flipped(folder, file, bit, scratch).items()})
            rows.append(
                {"file": file, "bytes": size, "flips": options.flips}
                | {f"unseen_by_{command}": unseen[command] for command in COMMANDS}
            )
    print_table(rows)
    save(options.json, "flips", rows, flips=options.flips, seed=options.seed)


if __name__ == "__main__":
    main()
