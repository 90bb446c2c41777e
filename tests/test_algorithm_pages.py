"""Every runnable name has its page, with what belongs on it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from algorithms import PRESETS

DOCS = Path(__file__).parents[1] / "docs"
SECTIONS = ["**In one sentence:**", "**Source.**", "**Deviations.**"]


def test_pages_and_presets_have_the_same_names() -> None:
    pages = {path.stem for path in (DOCS / "algorithms").glob("*.md")}
    assert pages - {"README", "regularization"} == set(PRESETS)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_page_has_every_section_and_is_listed_in_the_overview(name: str) -> None:
    page = (DOCS / "algorithms" / f"{name}.md").read_text()
    wanted = [*SECTIONS, f"<!-- table code.preset {name} -->"]
    assert [section for section in wanted if section not in page] == []
    assert f"| [{name}]({name}.md) |" in (DOCS / "algorithms" / "README.md").read_text()


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_page_says_where_its_source_is_or_which_page_it_goes_back_to(name: str) -> None:
    page = (DOCS / "algorithms" / f"{name}.md").read_text().partition("**Source.**")[2]
    source = page.partition("<!-- table")[0].strip()
    assert any(link in source for link in ("arXiv:", "doi:", "<http")) or source.startswith("As [")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_page_has_the_table_of_its_settings(name: str) -> None:
    page = (DOCS / "algorithms" / f"{name}.md").read_text()
    assert "`--algorithm." in page or not dataclasses.fields(PRESETS[name][0])
