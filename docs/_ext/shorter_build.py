"""Two things that shorten a build and change no page: the order of reading, and one list of pages for many."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

STRIDE = 6
"""Pages that follow each other in the order of their names are read this many places apart."""

LISTS: dict[int, Callable[..., str]] = {}
"""Depth of a page -> what makes the list of all pages, seen from there."""


def deal(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """None; changes the order in which pages are read.

    Each process reads a run of neighbours. In the order of names one of them gets nearly all tutorials,
    which are executed, and the other waits for it.
    """
    docnames[:] = [name for start in range(STRIDE) for name in docnames[start::STRIDE]]


def share(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """None; lets the pages that show source text share the list of all pages at their side.

    They stand in no list themselves, so theirs differ by their depth alone (`../../start.html`). Making it
    anew takes longer than all else of such a page.
    """
    if page.startswith(("_modules/", "repository/")):
        context["toctree"] = LISTS.setdefault(page.count("/"), cache(context["toctree"]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's own: connects the parts, the second before the theme asks for the list."""
    app.connect("env-before-read-docs", deal)
    app.connect("html-page-context", share, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
