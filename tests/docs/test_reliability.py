"""The page of promises counts what is there: tests by their names, faults from records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT, reliability
from docs.pages.reliability.faults import FAULTS, Fault, Measure

KILLS = Measure("kills", ("killed",), ("not as undisturbed",))


def test_every_row_is_tested_measured_or_not_run_with_a_reason() -> None:
    assert len({fault.key for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert bool(fault.not_run) != bool(fault.tests or fault.measure), fault.key
    assert set(reliability.PROMISED) == {f"P{number}" for number in range(1, 8)}


def test_a_file_of_tests_counts_its_functions_and_a_name_counts_one() -> None:
    own = "docs/test_reliability.py"
    text = (ROOT / "tests" / own).read_text()
    assert reliability.count([own]) == text.count("\ndef test_")
    assert reliability.count([f"{own}::test_a_name_that_is_no_test_is_refused"]) == 1


def test_a_name_that_is_no_test_is_refused() -> None:
    with pytest.raises(ValueError, match="test_of_nothing, which tests/docs/test_pages.py has not"):
        reliability.count(["docs/test_pages.py::test_of_nothing"])


def faults_table(monkeypatch: pytest.MonkeyPatch, record: dict[str, Any] | None) -> str:
    def result(name: str) -> dict[str, Any]:
        if record is None:
            raise FileNotFoundError(name)
        return record

    monkeypatch.setattr(reliability, "result", result)
    monkeypatch.setattr(reliability, "FAULTS", [Fault("F-6", "a kill", "so", (), KILLS)])
    return reliability.faults_table().splitlines()[-1]


def test_faults_are_summed_over_the_rows_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"killed": 1600, "not as undisturbed": 0}, {"killed": 33, "not as undisturbed": 2}]
    line = faults_table(monkeypatch, {"rows": rows})
    assert line == "| F-6 | a kill | so | killed: 1,633 | not as undisturbed: 2 |"


def test_a_record_that_is_missing_is_said_with_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = faults_table(monkeypatch, None)
    assert "**not measured**: `python -m benchmarks.reliability.kills --json benchmarks/" in line
    monkeypatch.setattr(reliability, "ROOT", tmp_path)
    assert "**not measured**: its benchmark is not built yet" in faults_table(monkeypatch, None)
