"""What a regulariser adds to a loss."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.core.batch import FlatBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import Regularizer


def penalty_of(
    regularizer: Regularizer, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """(`[N]` the sum of all weighted terms, the parts by metric name)."""
    weighted, parts = regularizer.penalties(dist, batch, advantages)
    return sum(weighted.values(), torch.zeros_like(parts["reg/entropy"])), parts
