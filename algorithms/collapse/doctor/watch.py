"""Follows a run row by row, for the line of its state on the console."""

from __future__ import annotations

from collections.abc import Mapping

from algorithms.collapse.doctor.diagnosis import SHORT, diagnose
from algorithms.collapse.doctor.packed_row import PackedRow
from algorithms.reports.summaries import Rows


class Watch:
    """Follows a run row by row: a line on its state, renewed at every evaluation.

    Args:
        rows: what is on record already, of a run that is continued.
    """

    def __init__(self, rows: Rows = ()) -> None:
        self._rows = [PackedRow(row) for row in rows]
        self._line = ""

    def __call__(self, row: Mapping[str, float]) -> str:
        """The line after this row of the record."""
        # A run that is continued plays again what its checkpoint had not seen: those rows are gone.
        while self._rows and (self._rows[-1].get("step") or 0.0) >= row["step"]:
            self._rows.pop()
        self._rows.append(PackedRow(row))
        if "eval/regret_cp" in row:
            diagnosis = diagnose(self._rows)
            self._line = "" if diagnosis.verdict == SHORT else diagnosis.line()
        return self._line
