"""Runs the commands of `chess-lab` in processes of their own, as their users do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def command_of(*arguments: str) -> list[str]:
    """The words that start `chess-lab ARGUMENTS` with this Python."""
    return [sys.executable, "-m", "algorithms.cli", *arguments]


def updates_of(run: Path) -> int:
    """Updates that the run in a folder has done so far."""
    record = run / "metrics.jsonl"
    return record.read_bytes().count(b"\n") - 1 if record.exists() else 0


def chess_lab(*arguments: str) -> None:
    """None; one command in a process of its own, with one thread; an error where it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = command_of(*arguments)
    subprocess.run(command, cwd=ROOT, check=True, env=environment)


def trained(seed: int, arguments: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(result, evaluations) of a training run in a process of its own, whose folder is not kept.

    Args:
        seed: of the run.
        arguments: what follows `chess-lab train`.

    Raises:
        RuntimeError: it failed; the message is what it printed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder, result = Path(scratch) / "run", Path(scratch) / "result.json"
        command = command_of("train", *arguments)
        command += ["--seed", str(seed), "--run-dir", str(folder), "--json", str(result)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return json.loads(result.read_text()), [row for row in rows if "eval/regret_cp" in row]
