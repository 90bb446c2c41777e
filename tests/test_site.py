"""What the site promises and needs no build for: pages are reachable, tutorials whole, docstrings fit."""

from __future__ import annotations

import ast
import dataclasses
import fnmatch
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("[0-9]*.md"))
PAGES = sorted(
    path for path in DOCS.rglob("*.md") if not {"_build", "api"} & set(path.relative_to(DOCS).parts)
)
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```", re.MULTILINE | re.DOTALL)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAGIC = "%%writefile"


@dataclasses.dataclass(frozen=True)
class Parts:
    """The extensions of docs/_ext that can be imported without Sphinx."""

    api_pages: ModuleType
    docstrings: ModuleType
    repository_files: ModuleType
    written_pages: ModuleType


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parts]:
    names = [field.name for field in dataclasses.fields(Parts)]
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    yield Parts(**{name: importlib.import_module(name) for name in names})
    for name in names:
        sys.modules.pop(name, None)


def cells(page: Path) -> list[str]:
    return CELL.findall(page.read_text(encoding="utf-8"))


def test_there_are_ten_tutorials_in_the_order_of_their_numbers() -> None:
    assert [int(path.name[:2]) for path in TUTORIALS] == list(range(1, 11))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_is_executed_ends_in_an_assertion_and_says_what_to_try_next(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("---\njupytext:\n") and "\nkernelspec:\n" in text
    assert f"\n# {int(page.name[:2])}. " in text
    last = ast.parse(cells(page)[-1]).body[-1]
    assert isinstance(last, ast.Assert)
    _, found, after = text.partition(cells(page)[-1])
    assert found and "\n## What to try next\n" in after


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_code_of_a_tutorial_is_python_and_uses_the_builtin_evaluator(page: Path) -> None:
    for cell in cells(page):
        code = cell.split("\n", 1)[1] if cell.startswith(MAGIC) else cell
        ast.parse(code)
        assert not re.search(r"evaluator=\"(auto|stockfish)", code)


def test_every_tutorial_is_in_the_list_under_its_own_title() -> None:
    listed = (DOCS / "tutorials" / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \d+ \| \[(.*)\]\((\S+\.md)\) \|", listed, re.MULTILINE))
    titles = {
        re.search(r"^# \d+\. (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)[1]: page.name  # type: ignore[index]
        for page in TUTORIALS
    }
    assert rows == titles


def test_every_page_is_in_a_toctree_and_every_entry_is_a_page(parts: Parts) -> None:
    entries = []
    for block in TOCTREE.findall((DOCS / "index.md").read_text(encoding="utf-8")):
        entries += [line for line in block.splitlines() if line and not line.startswith(":")]
    for page, pattern in parts.written_pages.CHILDREN.items():
        entries.append(f"{page.rpartition('/')[0]}/{pattern}")
    names = [path.relative_to(DOCS).with_suffix("").as_posix() for path in PAGES]
    reached = {name for name in names for entry in entries if fnmatch.fnmatchcase(name, entry)}
    assert set(names) - reached == {"index"}
    empty = [entry for entry in entries if not fnmatch.filter(names, entry)]
    assert empty == ["api/index"]  # written by the build


def test_links_out_of_docs_are_found_and_each_can_be_shown(parts: Parts) -> None:
    outside = parts.repository_files.outside(DOCS)
    assert ROOT / "examples" / "compare_algorithms.py" in outside
    assert ROOT / "CONTRIBUTING.md" not in outside  # it has a page of its own
    assert not [path for path in outside if path.is_relative_to(DOCS)]
    for path in outside:
        assert path.is_dir() or path.suffix in parts.repository_files.LEXERS, path


def test_the_text_of_another_file_has_its_links_moved(parts: Parts, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "eval.md").touch()
    (tmp_path / "A.md").write_text("[e](docs/eval.md) [a](A.md#x) [w](https://example.org)")
    moved = parts.written_pages.file_text(tmp_path, tmp_path / "docs" / "a.md", "A.md")
    assert moved == "[e](eval.md) [a](../A.md#x) [w](https://example.org)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("|x| of name_ in N_T", r"\|x\| of name\_ in N_T"),
        ("`a|b_` stays", "`a|b_` stays"),
        ("## Head", "**Head**\n"),
        ("A block:\n\n    [0] men", "A block::\n\n    [0] men"),
        ("Args:\n    x: y.", "Args:\n    x: y."),
        (
            "| a | b |\n|---|---|\n| KL(o||p) | 2 |",
            "\n.. list-table::\n   :header-rows: 1\n\n   * - a\n     - b\n   * - KL(o\\|\\|p)\n     - 2\n",
        ),
    ],
)
def test_docstrings_become_what_autodoc_reads(parts: Parts, text: str, expected: str) -> None:
    lines = text.split("\n")
    parts.docstrings.adapt(None, "function", "f", None, None, lines)
    assert "\n".join(lines) == expected


def test_a_colon_in_a_constants_docstring_makes_no_type_of_what_is_before_it(parts: Parts) -> None:
    lines = ["Rungs played in full: those near one half."]
    parts.docstrings.adapt(None, "data", "RUNGS", None, None, lines)
    assert lines == ["", "Rungs played in full: those near one half."]


def test_every_package_that_is_installed_has_an_api_page(parts: Parts) -> None:
    found = parts.api_pages.packages(ROOT)
    with_code = {path.parent for name in ("chess_env", "algorithms")
                 for path in (ROOT / name).rglob("*.py")}  # fmt: skip
    assert set(found) == {".".join(folder.relative_to(ROOT).parts) for folder in with_code}
    assert "chess_env.rewards.rewards" in found["chess_env.rewards"]
    assert "algorithms.grpo" in found["algorithms"]


def public_dataclass_fields(path: Path) -> Iterator[tuple[str, str, str]]:
    """(class, field, the class's docstring) of the public dataclasses of a module."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        if not any("dataclass" in ast.unparse(each) for each in node.decorator_list):
            continue
        for item in node.body:
            if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
                continue
            if not item.target.id.startswith("_") and "ClassVar" not in ast.unparse(
                item.annotation
            ):
                yield node.name, item.target.id, ast.get_docstring(node) or ""


def test_every_field_of_a_public_dataclass_is_named_in_its_docstring() -> None:
    # Functions, classes and methods are ruff's business (its rules D1xx); fields are nobody's.
    modules = [
        path for package in ("chess_env", "algorithms") for path in (ROOT / package).rglob("*.py")
    ]
    fields = [(path, *found) for path in modules for found in public_dataclass_fields(path)]
    assert fields
    missing = [
        f"{path.relative_to(ROOT)}: {name}.{field}"
        for path, name, field, text in fields
        if not re.search(rf"\b{field}\b", text)
    ]
    assert missing == []
