"""What one rule of the doctor says of rows."""

from __future__ import annotations

from algorithms.doctor import RULES
from algorithms.doctor.findings import Named, RuledOut, Untold, Verdict
from algorithms.doctor.metric_rows import MetricRows, outcome_of
from tests.doctor.rows import Rows

BY_NAME = {rule.name: rule for rule in RULES}


def verdict(name: str, rows: Rows) -> Verdict:
    read = MetricRows(rows)
    return BY_NAME[name](read, outcome_of(read))


def named(name: str, rows: Rows) -> Named:
    found = verdict(name, rows)
    assert isinstance(found, Named), found
    return found


def ruled_out(name: str, rows: Rows) -> str:
    found = verdict(name, rows)
    assert isinstance(found, RuledOut), found
    return found.because


def untold(name: str, rows: Rows) -> Untold:
    found = verdict(name, rows)
    assert isinstance(found, Untold), found
    return found
