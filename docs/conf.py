"""The documentation site: `make docs` builds it into docs/_build/html, offline, and any warning fails."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
# Pages run on the code beside them, whatever is installed; the kernels inherit the variable.
sys.path[:0] = [str(ROOT), str(DOCS / "_ext")]
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)

project = "chess-selfplay-lab"
author = "The chess-selfplay-lab maintainers"
copyright = f"{author}. GPL-3.0-or-later"
release = version = importlib.import_module("chess_env").__version__

extensions = [
    "myst_nb",  # Markdown, and notebooks in Markdown, which are executed
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "api_pages",
    "repository_links",
    "written_pages",
    "docstrings",
    "shorter_build",
]
root_doc = "index"
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
# Pages that are executed: those with a jupytext header. A cell that raises fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # the first page of a fresh clone also compiles the numba kernels
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "image/svg+xml", 0)]

myst_heading_anchors = 4  # the anchors that a forge gives to headings
myst_enable_extensions = ["attrs_block", "colon_fence"]

# The API pages are written by api_pages. What a package re-exports stands where it is defined.
autodoc_default_options = {"members": True, "show-inheritance": True, "ignore-module-all": True}
autodoc_member_order = "bysource"
autodoc_mock_imports = ["transformers"]  # the callback for TRL is read, not run
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "code"  # `name` in a docstring is code, as it is in Markdown

html_theme = "furo"
html_title = "chess-selfplay-lab"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}


def setup(app: object) -> None:
    """Sphinx's own: compiles the numba kernels of a fresh clone once, before pages run side by side."""
    import gymnasium

    env = gymnasium.make_vec("ChessSelfPlay-v0", num_envs=2, evaluator="builtin")
    _, info = env.reset(seed=0)
    env.step(info["legal_ids"][:, 0])
    env.close()
