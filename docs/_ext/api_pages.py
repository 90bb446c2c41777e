"""The API pages: one for each package, written from whatever modules it has into docs/api."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


PACKAGES = ("chess_env", "algorithms")


def packages(root: Path) -> dict[str, list[str]]:
    """Package -> its own name and its public modules, in their order on disk, as dotted names.

    Args:
        root: the folder that holds the packages.
    """
    found: dict[str, list[str]] = {}
    for top in PACKAGES:
        found[top] = [top]
        for module in pkgutil.walk_packages([str(root / top)], f"{top}."):
            if module.name.rpartition(".")[2].startswith("_"):
                continue
            home = module.name if module.ispkg else module.name.rpartition(".")[0]
            found.setdefault(home, []).append(module.name)
    return found


def heading(text: str, underline: str) -> str:
    """A title of reStructuredText."""
    title = text.replace("_", r"\_")
    return f"{title}\n{underline * len(title)}\n\n"


def page(package: str, modules: list[str]) -> str:
    """The page of a package: its own docstring, then module by module."""
    parts = []
    for name in modules:
        parts.append(heading(name, "=" if name == package else "-"))
        parts.append(f".. automodule:: {name}\n\n")
    return "".join(parts)


def write(app: Sphinx) -> None:
    """None; writes the pages, and removes those of packages that are gone."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    wanted = {name: page(name, mods) for name, mods in packages(Path(app.srcdir).parent).items()}
    intro = (
        "Written from the docstrings. Packages in the order in which they import each other.\n\n"
    )
    toctree = ".. toctree::\n   :maxdepth: 1\n\n"
    names = "".join(f"   {name}\n" for name in wanted)
    wanted["index"] = heading("API", "=") + intro + toctree + names
    for path in folder.glob("*.rst"):
        if path.stem not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's own: connects the parts."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
