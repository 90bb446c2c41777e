"""The records of an earlier matrix, from before the signal chain: benchmarks/data/doctor has a file for each seed.

Columns of a clock are left out, and numbers have six digits. The cells and their seeds are those of commit cc75582.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Name of the cell -> the rows of its run, out of the file of one seed."""
    columns_of = json.loads(lzma.decompress(path.read_bytes()))
    return {name: _rows(columns) for name, columns in columns_of.items()}


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    count = max((len(values) for values in columns.values()), default=0)
    return [
        {name: values[number] for name, values in columns.items() if values[number] != ""}
        for number in range(count)
    ]
