"""The settings table of every page in docs/algorithms."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from algorithms import PRESETS
from algorithms.commands.run_options import descriptions
from algorithms.regularization import RegularizerConfig
from docs.pages import ROOT
from docs.pages.writing.markdown import table

TABLE = re.compile(r"<!-- settings -->\n.*?<!-- end settings -->", re.DOTALL)


def pages() -> dict[str, str]:
    """{path: text} of the pages of all presets, each with its table made anew."""
    paths = {name: f"docs/algorithms/{name}.md" for name in PRESETS}
    return {
        path: with_table((ROOT / path).read_text(encoding="utf-8"), name)
        for name, path in paths.items()
    }


def with_table(page: str, name: str) -> str:
    """The page's text with its settings table made anew."""
    block = f"<!-- settings -->\n{settings(name)}\n<!-- end settings -->"
    return TABLE.sub(lambda _: block, page)


def settings(name: str) -> str:
    """The settings of one preset: all of the algorithm's, and the regulariser's that are not off."""
    algorithm, regularizer = PRESETS[name]
    off = RegularizerConfig()
    rows = [_row("algorithm", algorithm, field.name) for field in dataclasses.fields(algorithm)]
    rows += [
        _row("regularizer", regularizer, field.name)
        for field in dataclasses.fields(regularizer)
        if getattr(regularizer, field.name) != getattr(off, field.name)
    ]
    return table(["setting", "value", "what it does"], rows, "---") if rows else "No settings."


def _row(prefix: str, record: Any, name: str) -> tuple[str, str, str]:
    option = f"`--{prefix}.{name.replace('_', '-')}`"
    return option, f"`{getattr(record, name)}`", descriptions(type(record))[name]
