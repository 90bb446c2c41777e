"""Fills in the tables and draws the figures of the pages.

    python -m docs.pages [NAME ...] [--check]

A page is Markdown. A table that comes from the code or from benchmarks/results stands between two marks, and the
first of them names the function in `docs/pages` that writes it, with its arguments:

    <!-- table measured.figures vector_env speed.vector_env -->
    <!-- end table -->

NAME is a page (`causes`, `README`) or a folder of pages (`algorithms`). The text around the tables has to be read again
whenever a benchmark is run again.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FIGURES = {
    "benchmarks/learning": "measured",
    "causes": "causes",
    "corpus": "corpus",
    "doctor": "doctor",
    "remedies": "remedies",
}
"""Page -> module with a function `figures() -> {path below docs/figures: SVG}`."""

_MARKED = re.compile(
    r"^<!-- table ([^\n]+) -->\n(.*?)^<!-- end table -->$", re.MULTILINE | re.DOTALL
)


def pages() -> dict[str, Path]:
    """Every page with a table, by its path from `docs` without the ending; `README` is the repository's."""
    docs = ROOT / "docs"
    found = {
        path.relative_to(docs).with_suffix("").as_posix(): path
        for path in sorted(docs.rglob("*.md"))
        if not {"_build", "api"} & set(path.relative_to(docs).parts)
    }
    found["README"] = ROOT / "README.md"
    return {name: path for name, path in found.items() if _MARKED.search(_text(path))}


def chosen(names: list[str]) -> dict[str, Path]:
    """The pages that these names mean, all where there are none.

    Raises:
        ValueError: a name is neither a page with a table nor a folder with one.
    """
    every = pages()
    known = {*every, *(name.partition("/")[0] for name in every if "/" in name)}
    if unknown := sorted(set(names) - known):
        raise ValueError(
            f"no page with a table is called {', '.join(unknown)}: expected names of {', '.join(sorted(known))}"
        )
    return {
        name: path
        for name, path in every.items()
        if not names or name in names or name.partition("/")[0] in names
    }


def filled(text: str) -> str:
    """The text of a page with every table made anew.

    Raises:
        ValueError: a mark names no function of `docs.pages`.
    """
    return _MARKED.sub(
        lambda mark: f"<!-- table {mark[1]} -->\n{written(mark[1])}\n<!-- end table -->", text
    )


def written(call: str) -> str:
    """What the function writes that a mark names: "MODULE.FUNCTION ARGUMENT ..."."""
    name, *arguments = call.split()
    module, _, function = name.partition(".")
    try:
        write: Callable[..., str] = getattr(
            importlib.import_module(f"docs.pages.{module}"), function
        )
    except (ModuleNotFoundError, AttributeError) as error:
        raise ValueError(f"the mark of a table names {name!r}: {error}") from None
    return write(*arguments)


def drawn(page: str) -> dict[Path, str]:
    """The figures of a page that are drawn from results: file -> SVG."""
    if page not in FIGURES:
        return {}
    figures: Mapping[str, str] = importlib.import_module(f"docs.pages.{FIGURES[page]}").figures()
    return {ROOT / "docs" / "figures" / name: svg for name, svg in figures.items()}


def stale(path: Path) -> bool:
    """Whether a table of the page is another one now."""
    return filled(_text(path)) != _text(path)


def result(name: str) -> dict[str, Any]:
    """What a benchmark wrote to benchmarks/results.

    Raises:
        FileNotFoundError: it has not been run.
    """
    found: dict[str, Any] = json.loads(_text(ROOT / "benchmarks" / "results" / f"{name}.json"))
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
