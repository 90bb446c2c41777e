"""How often a finding of this size was right in the doctor's matrix."""

from __future__ import annotations

import math

from algorithms.doctor.findings import Named, Verdict

BANDS = (1.0, 2.0)
"""Sizes of effect at which another band begins: harmless ones, those up to twice the least harmful size, the rest."""

RIGHT_OF: dict[str, tuple[tuple[int, int], ...]] = {
    "temperature_mismatch": ((6, 6), (9, 9), (45, 45)),
    "forward_mismatch": ((21, 21), (10, 10), (56, 56)),
    "stale_behaviour": ((12, 13), (18, 18), (15, 15)),
    "sampled_entropy_bonus": ((27, 27), (0, 0), (24, 24)),
    "saturated_controller": ((0, 0), (30, 30), (0, 0)),
    "loss_budget": ((0, 0), (2, 2), (10, 12)),
    "sharp_optimum": ((21, 21), (0, 0), (0, 0)),
    "no_signal": ((0, 0), (14, 14), (73, 73)),
    "fixed_positions": ((0, 0), (38, 38), (16, 16)),
    "clip_asymmetry": ((0, 0), (8, 8), (13, 13)),
    "update_epochs": ((12, 23), (0, 0), (3, 3)),
    "weak_entropy_high_lr": ((6, 7), (5, 5), (15, 15)),
}
"""Cause -> (findings that were right, findings) for each band, in the matrix from before the signal chain;
`loss_budget` is of the open part of the new one."""


def confidence(name: str, verdict: Verdict) -> float:
    """Share of such findings that were right, with half a finding added to each side; NaN where nothing is named."""
    if not isinstance(verdict, Named):
        return math.nan
    band = sum(verdict.size >= edge for edge in BANDS)
    right, of = RIGHT_OF[name][band] if name in RIGHT_OF else (0, 0)
    return (right + 0.5) / (of + 1)
