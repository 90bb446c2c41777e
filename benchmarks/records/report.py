"""Printing and saving benchmark figures together with what they were measured on."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.reports.statistics import share_interval
from docs.pages.markdown import tables

Row = Mapping[str, Any]


def machine() -> dict[str, Any]:
    """What a figure depends on besides the code: processor, cores, versions, commit."""
    processor = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].split(":", 1)[1].strip() if names else processor
    root = Path(__file__).resolve().parents[2]
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True
    )
    versions = {
        name: importlib.metadata.version(name) for name in ("numpy", "numba", "chess", "gymnasium")
    }
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
        "commit": commit.stdout.strip() or "unknown",
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """None; prints the rows as a Markdown table."""
    print(tables(rows))


def save(path: Path | None, benchmark: str, rows: list[dict[str, Any]], **settings: Any) -> None:
    """None; writes rows, settings and machine as JSON when a path is given."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"benchmark": benchmark, "rows": rows, "settings": settings, "machine": machine()}
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written to {path}")


def rate(figure: str, group: Sequence[Row], holds: Callable[[Row], bool]) -> dict[str, Any]:
    """How many rows of a group something holds of, with a 95 % interval of the share."""
    count = sum(map(holds, group))
    interval = share_interval(count, len(group))
    bounds = {"low": round(interval.low, 3), "high": round(interval.high, 3)}
    return {"figure": figure, "count": count, "of": len(group), **bounds}
