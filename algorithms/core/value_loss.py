"""What a critic minimises. Pure function."""

from __future__ import annotations

import torch
from torch import Tensor


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, clip_range_vf: float | None
) -> Tensor:
    """`[N, K]` loss to minimise: .5 max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2).

    The clipped value loss of PPO's implementations (verl, CleanRL; no equation in arXiv:1707.06347)
    times .5; `clip_range_vf=None` leaves .5 (V - R)^2. The gradient flows into `values` alone.

    Args:
        values: `[N]` the critic's values now, side to move's view, reward units.
        old_values: `[N]` its values when the moves were sampled.
        returns: `[N, K]` what it should have said, one for each sample of the state.
        clip_range_vf: c > 0, reward units, or None.
    """
    values, old_values = values.unsqueeze(-1), old_values.detach().unsqueeze(-1)
    returns = returns.detach()
    squared = (values - returns).square()
    if clip_range_vf is None:
        return 0.5 * squared
    near = old_values + (values - old_values).clamp(-clip_range_vf, clip_range_vf)
    return 0.5 * torch.maximum(squared, (near - returns).square())
