"""The records of the doctor's matrix, a file for each seed, so that another rule can be judged without running again.

    python -m benchmarks.doctor.packed --runs runs/doctor --out benchmarks/data/doctor

Columns of a clock are left out, and numbers have six digits; the diagnoses are the same (`judge` reads both). A file
that is there keeps its other runs.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
_SUFFIX = ".json.xz"
_LEFT_OUT = ("time/", "crc32")
_DIGITS = ".6g"


def read(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Name of the cell -> the rows of its run, out of the file of one seed."""
    columns_of = json.loads(lzma.decompress(path.read_bytes()))
    return {name: _rows(columns) for name, columns in columns_of.items()}


def write(path: Path, runs: Mapping[str, Sequence[Row]]) -> None:
    """Writes runs into the file of a seed."""
    packed = {name: _columns(runs[name]) for name in sorted(runs)}
    text = json.dumps(packed, separators=(",", ":")).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))


def seeds(folder: Path) -> dict[int, Path]:
    """Seed -> its file."""
    return {
        int(path.name.removesuffix(_SUFFIX)): path for path in sorted(folder.glob(f"*{_SUFFIX}"))
    }


def finished(folder: Path) -> list[Path]:
    """The records of the runs in a folder that came to their end."""
    return [
        path
        for path in sorted(folder.glob("*/*/metrics.jsonl"))
        if path.parent.name.isdigit() and not (path.parent / "error.txt").exists()
    ]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a record."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    names = sorted({name for row in rows for name in row if not name.startswith(_LEFT_OUT)})
    return {name: [_short(row[name]) if name in row else "" for row in rows] for name in names}


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    count = max((len(values) for values in columns.values()), default=0)
    return [
        {name: values[number] for name, values in columns.items() if values[number] != ""}
        for number in range(count)
    ]


def _short(value: Any) -> Any:
    return float(format(value, _DIGITS)) if isinstance(value, float) else value


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for path in finished(options.runs):
        found.setdefault(int(path.parent.name), {})[path.parent.parent.name] = read_lines(path)
    there = seeds(options.out)
    for seed, runs in found.items():
        kept = read(there[seed]) if seed in there else {}
        path = options.out / f"{seed}{_SUFFIX}"
        write(path, {**kept, **runs})
        print(f"{path}: {len({**kept, **runs})} runs, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
