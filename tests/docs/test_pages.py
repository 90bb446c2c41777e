"""The tables of the pages are what the code and the results say today, and tables are well-formed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import docs.pages
from docs.pages import ROOT, chosen, pages, stale
from docs.pages.__main__ import main

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
    assert list(chosen(["corpus"])) == ["corpus"]
    with pytest.raises(ValueError, match="no page with a table is called finding: expected names"):
        chosen(["finding"])
