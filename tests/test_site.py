"""What the site promises and needs no build for: pages are reachable, tutorials whole, docstrings fit."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("[0-9]*.md"))
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```", re.MULTILINE | re.DOTALL)
MAGIC = "%%writefile"


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
    assert any(isinstance(node, ast.Assert) for node in ast.walk(last))
    _, found, after = text.partition(cells(page)[-1])
    assert found and "\n## What to try next\n" in after


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_asks_a_question_and_executes_the_folded_answer(page: Path) -> None:
    _, found, exercise = page.read_text(encoding="utf-8").partition("\n## Exercise\n\n")
    question, folded, rest = exercise.partition("\n<details>\n<summary>Answer</summary>\n\n")
    answer, closed, _ = rest.partition("\n</details>\n")
    assert found and folded and closed
    assert "?" in question and "{code-cell}" not in question
    assert CELL.findall(answer) == cells(page)[-1:]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_code_of_a_tutorial_is_python_and_uses_the_builtin_evaluator(page: Path) -> None:
    for cell in cells(page):
        code = cell.split("\n", 1)[1] if cell.startswith(MAGIC) else cell
        ast.parse(code)
        assert max(map(len, code.splitlines())) <= 85, "the page cuts longer lines off"
        assert not re.search(r"evaluator=\"(auto|stockfish)", code)


@pytest.mark.browser
def test_figures_follow_the_dark_theme_and_can_be_read_on_a_phone(browser: Any) -> None:
    style = (DOCS / "_static" / "site.css").read_text(encoding="utf-8")
    figures = "".join(
        f'<p><img src="figures/{name}.svg" width="700" height="300"></p>'
        for name in ("curves", "collapse")
    )
    seen = {}
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 375, "height": 812}, color_scheme=scheme)
        page.set_content(f"<style>{style}</style><body><article>{figures}</article></body>")
        seen[scheme] = page.locator("img").evaluate_all(
            "them => them.map((each) => getComputedStyle(each).filter.includes('invert'))"
        )
    widths = page.evaluate(
        "[document.querySelector('img').clientWidth, document.documentElement.scrollWidth]"
    )
    # the animation of the boards has a dark theme of its own
    assert seen == {"light": [False, False], "dark": [True, False]}
    assert widths[0] > 500 and widths[1] == 375  # the figure scrolls, the page does not


@pytest.mark.browser
def test_a_long_line_of_code_or_of_a_command_is_broken_where_the_page_ends(browser: Any) -> None:
    style = (DOCS / "_static" / "site.css").read_text(encoding="utf-8")
    words = (
        "chess-lab train grpo --run-dir runs/mine  # and a remark that no column is wide enough for"
    )
    kinds = ("console", "python", "ipython3", "text")
    blocks = "".join(
        f'<div class="highlight-{kind}"><div class="highlight"><pre>{words}</pre></div></div>'
        for kind in kinds
    )
    page = browser.new_page(viewport={"width": 375, "height": 812})
    page.set_content(
        f"<style>pre {{ overflow: auto; }}\n{style}</style><article>{blocks}</article>"
    )
    hidden = page.locator("pre").evaluate_all(
        "them => them.map((each) => each.scrollWidth > each.clientWidth)"
    )
    # columns of a transcript keep their places, and scroll
    assert dict(zip(kinds, hidden, strict=True)) == dict.fromkeys(kinds[:3], False) | {"text": True}


def test_every_tutorial_is_in_the_list_under_its_own_title() -> None:
    listed = (DOCS / "tutorials" / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \d+ \| \[(.*)\]\((\S+\.md)\) \|", listed, re.MULTILINE))
    titles = {
        re.search(r"^# \d+\. (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)[1]: page.name  # type: ignore[index]
        for page in TUTORIALS
    }
    assert rows == titles


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
        path
        for package in ("chess_env", "algorithms")
        for path in (ROOT / package).rglob("*.py")
        if "@dataclass" in path.read_text(encoding="utf-8")
    ]
    fields = [(path, *found) for path in modules for found in public_dataclass_fields(path)]
    assert fields
    missing = [
        f"{path.relative_to(ROOT)}: {name}.{field}"
        for path, name, field, text in fields
        if not re.search(rf"\b{field}\b", text)
    ]
    assert missing == []


def test_files_outside_of_docs_that_pages_link_to_can_be_shown() -> None:
    """The build of the site ends at one that it cannot show, after ten minutes."""
    path = ROOT / "docs" / "_ext" / "repository_files.py"
    spec = importlib.util.spec_from_file_location("repository_files", path)
    assert spec is not None and spec.loader is not None
    files = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(files)
    outside = files.outside(ROOT / "docs")
    assert ROOT / "examples" / "compare_algorithms.py" in outside
    assert not [each for each in outside if each.is_file() and each.suffix not in files.LEXERS]
