"""Which samples the clip stops, by how probable their move was when it was sampled.

The upper bound of a ratio is a bound on the growth of a probability: a move of 1 % gets to 1.2 % and
a move of 95 % never meets it. Metrics: docs/metrics.md, `clip/*`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BINS = ("p_below_01", "p_01_10", "p_10_50", "p_50_90", "p_above_90")
"""Names of the ranges of probability; each holds its lower edge, except that .9 is in the fourth."""

_LOWER = (math.log(0.01), math.log(0.1), math.log(0.5))
_LAST = math.log(0.9)


def clip_counts(
    old_logprobs: Tensor, advantages: Tensor, valid: Tensor, above: Tensor, below: Tensor
) -> Tensor:
    """float64 `[4, 5]` numbers of samples by probability; counts of several minibatches are added.

    Rows: A > 0, of these `above`, A < 0, of these `below`. Columns: `BINS`.

    Args:
        old_logprobs: `[N, K]` log-probability of each move when it was sampled.
        advantages: `[N, K]`, their A.
        valid: bool `[N, K]` True where the sample counts; the rest may hold anything.
        above: bool `[N, K]` True where the ratio is over its upper bound.
        below: bool `[N, K]` True where it is under its lower one.
    """
    column = (old_logprobs > _LAST).to(torch.int64)
    for edge in _LOWER:
        column += old_logprobs >= edge
    up, down = valid & (advantages > 0), valid & (advantages < 0)
    rows = torch.stack([up, up & above, down, down & below]).flatten(1)
    inside = column.reshape(-1, 1) == torch.arange(len(BINS), device=column.device)
    return rows.double() @ inside.double()


def clip_metrics(counts: Tensor) -> dict[str, float]:
    """`clip/up_<bin>` and `clip/down_<bin>`, shares in [0, 1], from `clip_counts`.

    A bin without a sample of that sign is absent.
    """
    up, above, down, below = counts.tolist()
    shares = {"up": (above, up), "down": (below, down)}
    return {
        f"clip/{side}_{name}": stopped / of
        for side, (numbers, totals) in shares.items()
        for name, stopped, of in zip(BINS, numbers, totals, strict=True)
        if of
    }
