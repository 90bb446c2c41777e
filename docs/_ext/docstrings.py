"""Docstrings as this project writes them, made into the markup that autodoc reads.

They are Google style with a little Markdown: headings, tables, and |x| for an absolute value. Autodoc
reads reStructuredText, where these mean something else or nothing.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


SPECIAL = re.compile(r"\\?(\||_(?!\w))")  # |x| and name_ mean something to reStructuredText
HEADING = re.compile(r"^#+ (.*)$")
CELLS = re.compile(r"\s\|\s")  # bars without spaces around them are part of a cell
CODE = re.compile(r"(`[^`]*`)")


def is_row(line: str) -> bool:
    """Whether a line is a row of a Markdown table."""
    return line.lstrip().startswith("|") and line.rstrip().endswith("|")


def table(rows: list[str]) -> list[str]:
    """A Markdown table as a list-table, without the line below its head."""
    head = any(set(row.strip()) <= set("|-: ") for row in rows)
    lines = ["", ".. list-table::", f"   :header-rows: {int(head)}", ""]
    for row in rows:
        cells = [cell.strip() for cell in CELLS.split(row.strip()[1:-1])]
        if not set(row.strip()) <= set("|-: "):
            lines += [f"   {'* - ' if not i else '  - '}{prose(c)}" for i, c in enumerate(cells)]
    return [*lines, ""]


def prose(line: str) -> str:
    """A line with bars and underlines that are nothing else, outside of code, and a heading in bold."""
    heading = HEADING.match(line)
    if heading:
        return f"**{heading[1]}**\n"
    parts = CODE.split(line)
    return "".join(part if i % 2 else SPECIAL.sub(r"\\\1", part) for i, part in enumerate(parts))


def with_literal_blocks(lines: list[str]) -> list[str]:
    """The lines with what is indented after a colon and an empty line marked as a literal block."""
    marked = list(lines)
    for i, (line, gap, block) in enumerate(zip(lines, lines[1:], lines[2:], strict=False)):
        deeper = len(block) - len(block.lstrip()) > len(line) - len(line.lstrip())
        if line.endswith(":") and not gap.strip() and deeper:
            marked[i] = f"{line}:"
    return marked


def adapt(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """None; changes the lines of a docstring, before its sections are read."""
    changed: list[str] = []
    for tabular, group in groupby(with_literal_blocks(lines), is_row):
        together = list(group)
        changed += table(together) if tabular else map(prose, together)
    if what in ("attribute", "data", "property"):
        # Napoleon takes what stands before a colon in a first line for a type.
        changed.insert(0, "")
    lines[:] = "\n".join(changed).split("\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's own: connects the parts."""
    app.connect("autodoc-process-docstring", adapt, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
