"""The tables of the pages are what the code and the results say today, and tables are well-formed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import docs.pages
from docs.pages import ROOT, chosen, filled, pages, stale
from docs.pages.__main__ import main
from docs.pages.markdown import table, tables

NAMES = sorted(pages())


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_pages_are_what_the_command_writes(name: str) -> None:
    assert not stale(pages()[name]), f"run: python -m docs.pages {name}"


def test_every_mark_of_a_table_is_closed() -> None:
    for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n<!-- table ") == text.count("\n<!-- end table -->\n"), path


def test_the_check_names_a_page_whose_table_says_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "networks.md"
    page.write_text("# N\n\n<!-- table code.learning_rates -->\nold\n<!-- end table -->\nmore\n")
    (tmp_path / "README.md").touch()
    monkeypatch.setattr(docs.pages, "ROOT", tmp_path)
    monkeypatch.setattr("docs.pages.__main__.ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["docs.pages", "networks", "--check"])
    with pytest.raises(SystemExit, match=r"networks: not what `python -m docs.pages networks`"):
        main()
    monkeypatch.setattr(sys, "argv", ["docs.pages", "networks"])
    main()
    text = page.read_text()
    assert text.startswith("# N\n") and text.endswith("<!-- end table -->\nmore\n")
    assert "| `move_net` |" in text and "old" not in text


def test_a_folder_means_its_pages_and_a_name_without_a_table_is_refused() -> None:
    assert {"algorithms/grpo", "algorithms/ppo"} <= set(chosen(["algorithms"]))
    assert list(chosen(["causes"])) == ["causes"]
    with pytest.raises(ValueError, match="no page with a table is called finding: expected names"):
        chosen(["finding"])


def test_a_mark_that_names_no_function_is_refused() -> None:
    for call in ("nothing.rows", "measured.nothing"):
        with pytest.raises(ValueError, match=f"the mark of a table names '{call}'"):
            filled(f"<!-- table {call} -->\n<!-- end table -->\n")


def test_a_table_separates_thousands_and_keeps_a_bar_inside_its_cell() -> None:
    assert table(["a", "b"], [(1234, 0.5), ("x|y", "")]) == (
        "| a | b |\n| --- | --- |\n| 1,234 | 0.5 |\n| x\\|y |  |"
    )


def test_records_with_other_columns_begin_a_new_table() -> None:
    found = tables([{"a": 1}, {"a": 2}, {"b": 3}])
    assert found == "| a |\n| --- |\n| 1 |\n| 2 |\n\n| b |\n| --- |\n| 3 |"
