"""Links to files outside docs/, which lead somewhere in the repository and on the site alike.

The rule: a page links to a file or folder of the repository by its relative path. On the site,
`CONTRIBUTING.md` and its neighbours in PAGES are pages of their own; every other file becomes a page that
shows its text, and a folder a page that lists its files. A link that leads nowhere is a warning, and
so fails the build.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from repository_files import LEXERS, PAGES, outside, page_name
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class RepositoryLinks(SphinxTransform):
    """Turns links that leave docs/ into links to the pages that show what they lead to."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        """None; changes the document."""
        docs = Path(self.env.srcdir).resolve()
        docname = self.env.docname
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for node in list(self.document.findall(kind)):
                if node.get("reftype") != "myst" and node.get("refdomain") != "doc":
                    continue
                target = (docs / docname).parent / str(node["reftarget"])
                if node.get("refdomain") == "doc":  # of documents MyST gives the name from docs/ on
                    names = [docs / f"{node['reftarget']}{suffix}" for suffix in (".md", ".ipynb")]
                    target = next((name for name in names if name.exists()), names[0])
                target = target.resolve()
                if target.is_relative_to(docs) or not target.exists():
                    continue
                name = PAGES.get(target.name) if target.parent == docs.parent else None
                name = name or page_name(target, docs.parent)
                uri = self.app.builder.get_relative_uri(docname, name)
                link = nodes.reference("", "", internal=True, refuri=uri)
                link += node.children[0].children if node.children else nodes.Text(target.name)
                node.replace_self(link)


def shown(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages that show files of the repository."""
    docs = Path(app.srcdir).resolve()
    for path in sorted(outside(docs)):
        name = str(path.relative_to(docs.parent))
        if path.is_dir():
            files = sorted(file.name for file in path.iterdir() if file in outside(docs))
            links = "".join(
                f'<li><a href="{html.escape(path.name)}/{html.escape(file)}.html">'
                f"<code>{html.escape(file)}</code></a></li>"
                for file in files
            )
            body = f"<ul>{links}</ul>"
        else:
            highlighter = app.builder.highlighter  # type: ignore[attr-defined]
            text = path.read_text(encoding="utf-8")
            body = highlighter.highlight_block(text, LEXERS[path.suffix], linenos=False)
        context = {"title": name, "body": f"<h1><code>{html.escape(name)}</code></h1>{body}"}
        yield page_name(path, docs.parent), context, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's own: connects the parts."""
    app.add_transform(RepositoryLinks)
    app.connect("html-collect-pages", shown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
