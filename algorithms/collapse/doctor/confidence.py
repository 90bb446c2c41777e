"""How often a finding was right in the doctor's matrix."""

from __future__ import annotations

import math

from algorithms.collapse.doctor.finding import Named, Verdict

RIGHT_OF: dict[tuple[str, bool], tuple[int, int]] = {}
"""(cause, harmful) -> (findings that were right, findings) on the seeds that the rules were chosen on."""


def confidence(name: str, verdict: Verdict) -> float:
    """Share of such findings that were right, with half a finding added to each side; NaN where nothing is named."""
    if not isinstance(verdict, Named):
        return math.nan
    right, of = RIGHT_OF.get((name, verdict.size >= 1), (0, 0))
    return (right + 0.5) / (of + 1)
