"""How samples are added into one loss: each sample's weight, 0 where not valid. Pure functions.

The loss is sum(weights * loss of the sample). In `games` form a sequence is a game and its tokens
are plies; in `positions` form each ply of each stream is a sequence of its own. Weights are made in the
rewards' precision (`dtype`; torch's default if not given), so that they blur no float64 loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.core.checks import require_choice

Reduction = Literal["sample_mean", "game_mean", "constant_length"]


def sample_mean(valid: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Weights of the plain mean over valid samples, shaped like `valid`; they sum to 1.

    The token-level mean of DAPO (arXiv:2503.14476), where a sample is a token. Without any valid
    sample all are 0.
    """
    return valid / _divisor(valid.sum(), dtype)


def game_mean(valid: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Weights of the mean over each game's valid plies, then over games; they sum to 1.

    GRPO's reduction (arXiv:2402.03300): a ply of a short game weighs more than one of a long
    game. Games without a valid ply do not count; without any game all weights are 0.

    Args:
        valid: bool `[..., T]`, plies last.
        dtype: of the weights.
    """
    plies = valid.sum(-1, keepdim=True)
    return valid / _divisor(plies * (plies > 0).sum(), dtype)


def constant_length(valid: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Weights 1 / (games x plies of the rollout), shaped like `valid`; they sum to the share of valid plies.

    Dr. GRPO's reduction (arXiv:2503.20783): every ply weighs the same whatever the length of its
    game. Every game of the batch counts, valid or not, with as many plies as the rollout is long (1
    in `positions` form): `rollout.num_plies`, fewer only where every game of it ended earlier.
    """
    return valid / _divisor(torch.tensor(valid.numel(), device=valid.device), dtype)


def state_sum(valid: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Weights 1 / (states with a valid sample): a state's samples are added, not averaged.

    For losses that carry each sample's probability themselves, whose sum over a state's samples is
    an expectation. They sum to the mean number of valid samples in these states, not to 1; without
    any all are 0.

    Args:
        valid: bool `[..., K]`, a state's samples last.
        dtype: of the weights.
    """
    return valid / _divisor(valid.any(-1).sum(), dtype)


def _divisor(count: Tensor, dtype: torch.dtype | None) -> Tensor:
    """The count, at least 1: what has no sample behind it is 0 above the line."""
    return count.clamp(min=1).to(dtype or torch.get_default_dtype())


def _game_mean_of(batch: RolloutBatch) -> Tensor:
    # In positions form a sequence is one ply, and its mean is the ply itself.
    mean = sample_mean if batch.form == "positions" else game_mean
    return mean(batch.valid, batch.rewards.dtype)


REDUCTIONS: dict[str, Callable[[RolloutBatch], Tensor]] = {
    "sample_mean": lambda batch: sample_mean(batch.valid, batch.rewards.dtype),
    "game_mean": _game_mean_of,
    "constant_length": lambda batch: constant_length(batch.valid, batch.rewards.dtype),
}


def reduction_weights(batch: RolloutBatch, reduction: Reduction) -> Tensor:
    """Each sample's weight under the named reduction, shaped like `batch.rewards`.

    Raises:
        ValueError: the reduction is unknown.
    """
    require_choice("reduction", reduction, REDUCTIONS)
    return REDUCTIONS[reduction](batch)
