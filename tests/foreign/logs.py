"""Logs of other trainers for tests: real ones out of the packed runs, and the same rows in other formats."""

from __future__ import annotations

import csv
import functools
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKED = Path(__file__).parents[2] / "benchmarks" / "data" / "corpus"

Rows = list[dict[str, Any]]


@functools.cache
def _texts(name: str) -> dict[str, str]:
    with tarfile.open(PACKED / f"{name}.tar.xz") as packed:
        return {
            member.name: packed.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in packed
            if member.isfile()
        }


def trl_rows(run: str) -> Rows:
    """`log_history` of a run of TRL 1.16.0, as `sound__1`."""
    history: Rows = json.loads(_texts("trl_open")[f"{run}/trainer_state.json"])["log_history"]
    return history


def trl_state(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """The rows as a trainer_state.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"epoch": 1.0, "log_history": list(rows)}, indent=2))
    return path


def json_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """The rows as lines of JSON."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def csv_table(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """The rows as a table with empty cells."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, names, restval="")
        table.writeheader()
        table.writerows(rows)
    return path


def sb3_csv(folder: Path, run: str) -> Path:
    """The progress.csv of a run of Stable-Baselines3."""
    path = folder / "progress.csv"
    path.write_text(_texts("sb3_open")[f"{run}/progress.csv"])
    return path
