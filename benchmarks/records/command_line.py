"""Runs the commands of `chess-lab` in processes of their own, as their users do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def chess_lab(*arguments: str) -> None:
    """None; one command in a process of its own, with one thread; an error where it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "algorithms.cli", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, env=environment)
