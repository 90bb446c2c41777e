"""How often a finding of this size was right in the doctor's matrix."""

from __future__ import annotations

import math

from algorithms.collapse.doctor.finding import Named, Verdict

BANDS = (1.0, 2.0)
"""Sizes of effect at which another band begins: harmless ones, those up to twice the least harmful size, the rest."""

RIGHT_OF: dict[str, tuple[tuple[int, int], ...]] = {}
"""Cause -> (findings that were right, findings) for each band, on the seed that the rules were chosen on."""


def band_of(size: float) -> int:
    """0, 1 or 2: the band of `BANDS` that a size lies in."""
    return sum(size >= edge for edge in BANDS)


def confidence(name: str, verdict: Verdict) -> float:
    """Share of such findings that were right, with half a finding added to each side; NaN where nothing is named."""
    if not isinstance(verdict, Named):
        return math.nan
    right, of = RIGHT_OF[name][band_of(verdict.size)] if name in RIGHT_OF else (0, 0)
    return (right + 0.5) / (of + 1)
