"""The pages of findings and open questions are what their script writes from the committed results."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import findings_tables
from benchmarks.findings_figures import phase_plot, price_plot

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("findings_page", ROOT / "docs/findings_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def questions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "questions.json").read_text(encoding="utf-8"))
    return found


def column(prices: dict[str, float]) -> dict[str, Any]:
    spreads = {at: {"iqm": value, "low": value, "high": value} for at, value in prices.items()}
    return {"nats_per_100_cp": spreads}


def test_the_committed_pages_are_what_the_script_writes(
    page: ModuleType, questions: dict[str, Any]
) -> None:
    four = json.loads((RESULTS / "four_algorithms.json").read_text(encoding="utf-8"))
    for path, text in (
        (page.FINDINGS, page.findings(four, questions)),
        (page.OPEN, page.open_questions(questions)),
    ):
        assert path.read_text(encoding="utf-8") == text, "run: python docs/findings_page.py"


def test_a_question_without_an_answer_is_refused(
    page: ModuleType, questions: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(page.ANSWERS, "sync_interval")
    with pytest.raises(ValueError, match="differ in .*sync_interval"):
        page.open_questions(questions)


def test_a_difference_is_bold_where_its_interval_excludes_zero() -> None:
    away = {"difference": -0.5, "low": -0.7, "high": -0.3}
    assert findings_tables.difference(away) == "**-0.50 (-0.70 to -0.30)**"
    assert findings_tables.difference(away | {"high": 0.1}) == "-0.50 (-0.70 to +0.10)"
    assert findings_tables.difference(None) == "–"


def test_prices_are_read_where_all_columns_of_one_pass_have_one() -> None:
    columns = {
        "grpo update_epochs=1": column({"90": 1.0, "80": 2.0, "70": 3.0}),
        "rloo update_epochs=1": column({"90": 1.0, "80": 4.0}),
        "grpo update_epochs=2": column({"90": 1.0, "80": 5.0, "70": 3.0}),
        "rloo update_epochs=2": column({}),
    }
    assert findings_tables.price_level(columns) == 80
    text = findings_tables.price_table(columns)
    assert "| grpo | 2.00 (2.00 to 2.00) | 5.00 (5.00 to 5.00) |" in text
    assert "| rloo | 4.00 (4.00 to 4.00) | not reached |" in text
    with pytest.raises(ValueError, match="no level of"):
        findings_tables.price_level({"rloo update_epochs=1": column({})})


def test_figures_come_out_the_same_twice(tmp_path: Path) -> None:
    run = {"regret_cp": [384.0, 200.0], "entropy": [3.4, 1.0]}
    prices = {"grpo update_epochs=1": column({"80": 2.0})}
    for folder in ("first", "second"):
        phase_plot(tmp_path / folder / "phase.svg", {"no bonus": {"grpo": [run]}})
        price_plot(tmp_path / folder / "price.svg", prices, 80)
    for name in ("phase.svg", "price.svg"):
        first, second = ((tmp_path / each / name).read_text() for each in ("first", "second"))
        assert first == second
        assert "grpo" in first
