"""How often a finding of this size was right in the doctor's matrix."""

from __future__ import annotations

import math

from algorithms.collapse.doctor.finding import Named, Verdict

BANDS = (1.0, 2.0)
"""Sizes of effect at which another band begins: harmless ones, those up to twice the least harmful size, the rest."""

RIGHT_OF: dict[str, tuple[tuple[int, int], ...]] = {
    "temperature_mismatch": ((1, 1), (3, 3), (15, 15)),
    "forward_mismatch": ((7, 7), (4, 4), (18, 18)),
    "stale_behaviour": ((4, 4), (6, 6), (5, 5)),
    "sampled_entropy_bonus": ((9, 9), (2, 2), (6, 6)),
    "saturated_controller": ((0, 0), (9, 9), (0, 0)),
    "loss_budget": ((0, 0), (14, 14), (0, 0)),
    "sharp_optimum": ((7, 7), (0, 0), (0, 0)),
    "no_signal": ((0, 0), (6, 6), (23, 23)),
    "fixed_positions": ((0, 0), (13, 13), (5, 5)),
    "clip_asymmetry": ((0, 0), (3, 3), (4, 4)),
    "update_epochs": ((4, 7), (0, 0), (1, 1)),
    "weak_entropy_high_lr": ((2, 2), (3, 3), (4, 4)),
}
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
