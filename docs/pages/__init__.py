"""Writes the pages and figures that come from the code and from benchmarks/results.

    python -m docs.pages [NAME ...] [--check]

One module or folder a page, or a few pages that belong together, with what is computed; what is said stands in
the template of the page, in `templates`. The texts have to be read again whenever a benchmark is run again.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "benchmarks",
    "causes",
    "command_line",
    "doctor",
    "environment",
    "findings",
    "networks",
    "reliability",
    "results",
    "scaling",
    "settings",
)


def render(name: str) -> dict[str, str]:
    """{path from the root of the clone: text} of the pages that one module of `NAMES` writes."""
    pages: dict[str, str] = _module(name).pages()
    return pages


def draw(name: str) -> dict[str, str]:
    """{path from the root of the clone: SVG} of the figures in these pages."""
    figures: dict[str, str] = getattr(_module(name), "figures", dict)()
    return figures


def stale(name: str) -> list[str]:
    """The paths of these pages whose text is another one now, or not there.

    Figures are not compared: their last digits are matplotlib's and the machine's.
    """
    wanted = {ROOT / path: text for path, text in render(name).items()}
    return [
        path.relative_to(ROOT).as_posix()
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def result(name: str) -> dict[str, Any]:
    """What a benchmark wrote to benchmarks/results.

    Raises:
        FileNotFoundError: it has not been run.
    """
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _module(name: str) -> Any:
    if name not in NAMES:
        raise ValueError(f"page is {name!r}: expected one of {', '.join(NAMES)}")
    return importlib.import_module(f"docs.pages.{name}")
