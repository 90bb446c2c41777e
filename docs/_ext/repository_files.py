"""Which files outside docs/ the pages link to, and where the site shows them; see `repository_links`."""

from __future__ import annotations

import re
from pathlib import Path

PAGES = {"README.md": "index", "CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog"}
"""Files of the repository's root -> pages that hold their text."""

LEXERS = {
    ".py": "python", ".md": "markdown", ".toml": "toml", "": "text", ".txt": "text", ".cff": "yaml", ".ipynb": "json",
}  # fmt: skip
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def outside(docs: Path) -> set[Path]:
    """Files and folders outside `docs` that its Markdown pages link to, with the files of the folders."""
    root = docs.parent
    found: set[Path] = set()
    for page in [*docs.rglob("*.md"), *map(root.joinpath, PAGES)]:
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if target.is_relative_to(root) and not target.is_relative_to(docs) and target.exists():
                found.add(target)
    found -= {root / name for name in PAGES}
    for folder in [path for path in found if path.is_dir()]:
        found |= {file for file in folder.iterdir() if file.suffix in LEXERS and file.is_file()}
    return found


def page_name(path: Path, root: Path) -> str:
    """The page on which a file or folder of the repository is shown."""
    return f"repository/{path.relative_to(root).as_posix()}"
