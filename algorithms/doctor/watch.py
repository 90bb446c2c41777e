"""Follows a run row by row, for the line of its state on the console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from algorithms.doctor.diagnosis import SHORT, UNEXPLAINED, Diagnosis, diagnose
from algorithms.doctor.metric_rows import NOT_LEARNING

_FIRST, _NEWEST = 256, 1_792


class Watch:
    """Follows a run row by row: a line on its state, renewed at every evaluation.

    Of a long run it keeps the first rows and the newest, so that its memory does not grow;
    `chess-lab diagnose` reads all of them.

    Args:
        rows: what is on record already, of a run that is continued.
    """

    def __init__(self, rows: Iterable[Mapping[str, float | None]] = ()) -> None:
        self._rows: list[Mapping[str, float | None]] = []
        self._line = ""
        for row in rows:
            self.add(row)

    def __call__(self, row: Mapping[str, float]) -> str:
        """The line after this row of the record."""
        self.add(row)
        if "eval/regret_cp" in row:
            self._line = _line(diagnose(self._rows))
        return self._line and f"doctor: {self._line}"

    def add(self, row: Mapping[str, float | None]) -> None:
        """Takes up a row without a line after it."""
        # A run that is continued plays again what its checkpoint had not seen: those rows are gone.
        while self._rows and (self._rows[-1].get("step") or 0.0) >= (row["step"] or 0.0):
            self._rows.pop()
        self._rows.append(dict(row))
        if len(self._rows) > _FIRST + _NEWEST:
            del self._rows[_FIRST]


def _line(diagnosis: Diagnosis) -> str:
    """What is known so far: a cause that does harm with its remedy, otherwise how the run does."""
    if diagnosis.verdict == SHORT:
        return ""
    if (
        diagnosis.verdict == UNEXPLAINED
        or diagnosis.chain.losses
        or any(cause.is_harmful for cause in diagnosis.causes)
    ):
        return diagnosis.line()
    state = diagnosis.state
    if diagnosis.outcome.learning == NOT_LEARNING:
        state = state.replace(NOT_LEARNING, f"{NOT_LEARNING} yet", 1)
    return "; ".join([state, *diagnosis.lacking])
