"""The generated pages are what the code and the results say today, and tables are well-formed."""

from __future__ import annotations

import sys

import pytest

import docs.pages
from docs.pages import NAMES, render, stale
from docs.pages.__main__ import main
from docs.pages.writing.markdown import filled, table, tables


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_pages_are_what_the_command_writes(name: str) -> None:
    assert stale(name) == [], f"run: python -m docs.pages {name}"


def test_the_check_names_a_page_that_says_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {path: text + "more" for path, text in render("findings").items()}
    monkeypatch.setattr(docs.pages, "render", lambda name: {**changed, "docs/none.md": "x"})
    wanted = ["docs/findings.md", "docs/open_questions.md", "docs/none.md"]
    assert stale("findings") == wanted
    monkeypatch.setattr(sys, "argv", ["docs.pages", "findings", "--check"])
    with pytest.raises(SystemExit, match="docs/findings.md, .*python -m docs.pages findings"):
        main()


def test_a_page_that_nobody_writes_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="page is 'finding': expected one of benchmarks, causes"):
        render("finding")
    monkeypatch.setattr(sys, "argv", ["docs.pages", "finding"])
    with pytest.raises(SystemExit):
        main()
    assert "no page is called finding" in capsys.readouterr().err


def test_a_value_that_a_template_asks_for_and_nobody_gives_is_an_error() -> None:
    with pytest.raises(Exception, match="'commands' is undefined"):
        filled("command_line")


def test_a_table_separates_thousands_and_keeps_a_bar_inside_its_cell() -> None:
    assert table(["a", "b"], [(1234, 0.5), ("x|y", "")]) == (
        "| a | b |\n| --- | --- |\n| 1,234 | 0.5 |\n| x\\|y |  |"
    )


def test_records_with_other_columns_begin_a_new_table() -> None:
    found = tables([{"a": 1}, {"a": 2}, {"b": 3}])
    assert found == "| a |\n| --- |\n| 1 |\n| 2 |\n\n| b |\n| --- |\n| 3 |"
