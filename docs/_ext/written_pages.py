"""What a page's text in the repository leaves to the site: lists of pages below it, and whole texts.

Pages must stay readable on their own in the repository, where a toctree is only noise, so it is
added here. Two lines stand for a text that has its place elsewhere:

- `<!-- docstring MODULE NAME -->`: that object's docstring, in Markdown as is Gymnasium's custom;
- `<!-- file PATH -->`: a Markdown file of the repository, PATH from its root, with its links put right.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repository_files import LINK

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CHILDREN = {
    "algorithms/README": "*",
    "tutorials/README": "*",
    "causes": "causes/*",
    "benchmarks": "benchmarks/*",
}
"""Page -> pattern of the pages below it, from its folder."""

DOCSTRING = re.compile(r"^<!-- docstring (\S+) (\S+) -->$", re.MULTILINE)
FILE = re.compile(r"^<!-- file (\S+) -->$", re.MULTILINE)


def docstring(match: re.Match[str]) -> str:
    """The docstring that the line asks for."""
    member = getattr(importlib.import_module(match[1]), match[2])
    text = inspect.getdoc(member)
    if text is None:
        raise ValueError(f"{match[0]}: {match[1]}.{match[2]} has no docstring; write one")
    return text


def file_text(root: Path, page: Path, name: str) -> str:
    """The text of a file of the repository, as it must stand in `page`."""

    def moved(link: re.Match[str]) -> str:
        target = root / link[1]
        if not target.exists():  # an address, or a dead link, which the build complains of
            return link[0]
        return link[0].replace(link[1], os.path.relpath(target, page.parent))

    return LINK.sub(moved, (root / name).read_text(encoding="utf-8"))


def complete(app: Sphinx, docname: str, source: list[str]) -> None:
    """None; changes the text of a page before it is read."""
    docs = Path(app.srcdir).resolve()
    text = DOCSTRING.sub(docstring, source[0])
    text = FILE.sub(lambda match: file_text(docs.parent, docs / docname, match[1]), text)
    if docname in CHILDREN:
        text += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n\n{CHILDREN[docname]}\n```\n"
    source[0] = text


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's own: connects the parts."""
    app.connect("source-read", complete)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
