"""Writes the settings table of every page in docs/algorithms from the code: python docs/settings_tables.py."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import docstring_parser

from algorithms import PRESETS
from algorithms.regularization import RegularizerConfig

PAGES = Path(__file__).parent / "algorithms"
TABLE = re.compile(r"<!-- settings -->\n.*?<!-- end settings -->", re.DOTALL)


def descriptions(record: type) -> dict[str, str]:
    """What each field of a dataclass does, from the Attributes sections of its docstring and its bases'."""
    parsed = [docstring_parser.parse(base.__doc__ or "") for base in reversed(record.__mro__)]
    return {
        p.arg_name: " ".join((p.description or "").split()) for each in parsed for p in each.params
    }


def rows(prefix: str, record: Any, names: list[str]) -> list[str]:
    """One table row for each named field."""
    said = descriptions(type(record))
    return [
        # A bar would end the cell.
        f"| `--{prefix}.{name.replace('_', '-')}` | `{getattr(record, name)}` | "
        + said[name].replace("|", "\\|")
        + " |"
        for name in names
    ]


def table(name: str) -> str:
    """The settings of one preset: all of the algorithm's, and the regulariser's that are not off."""
    algorithm, regularizer = PRESETS[name]
    own = [field.name for field in dataclasses.fields(algorithm)]
    off = RegularizerConfig()
    active = [
        field.name
        for field in dataclasses.fields(regularizer)
        if getattr(regularizer, field.name) != getattr(off, field.name)
    ]
    lines = ["| setting | value | what it does |", "|---|---|---|"]
    lines += rows("algorithm", algorithm, own) + rows("regularizer", regularizer, active)
    if len(lines) == 2:
        return "No settings.\n"
    return "\n".join(lines) + "\n"


def with_table(page: str, name: str) -> str:
    """The page's text with its settings table made anew."""
    block = f"<!-- settings -->\n{table(name)}<!-- end settings -->"
    return TABLE.sub(lambda _: block, page)


if __name__ == "__main__":
    for preset in PRESETS:
        path = PAGES / f"{preset}.md"
        path.write_text(with_table(path.read_text(encoding="utf-8"), preset), encoding="utf-8")
        print(path)
