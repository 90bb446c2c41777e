"""How samples are added into one loss: each sample's weight, 0 where not valid. Pure functions.

The loss is sum(weights * loss of the sample). In `games` form a sequence is a game and its tokens
are plies; in `positions` form each ply of each stream is a sequence of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.core.checks import require_choice

Reduction = Literal["sample_mean", "game_mean", "constant_length"]


def sample_mean(valid: Tensor) -> Tensor:
    """Weights of the plain mean over valid samples, shaped like `valid`; they sum to 1.

    The token-level mean of DAPO (arXiv:2503.14476), where a sample is a token. Without any valid
    sample all are 0.
    """
    return valid / valid.sum().clamp(min=1).to(torch.get_default_dtype())


def game_mean(valid: Tensor) -> Tensor:
    """Weights of the mean over each game's valid plies, then over games; they sum to 1.

    GRPO's reduction (arXiv:2402.03300): a ply of a short game weighs more than one of a long
    game. Games without a valid ply do not count; without any game all weights are 0.

    Args:
        valid: bool `[..., T]`, plies last.
    """
    plies = valid.sum(-1, keepdim=True)
    games = (plies > 0).sum().clamp(min=1)
    return valid / (plies.clamp(min=1) * games).to(torch.get_default_dtype())


def constant_length(valid: Tensor) -> Tensor:
    """Weights 1 / (games x plies of the rollout); they sum to the share of plies that are valid.

    Dr. GRPO's reduction (arXiv:2503.20783): every ply weighs the same whatever the length of its
    game, and the divisor does not depend on what was played. Every game of the batch counts, valid
    or not, with the longest one's number of plies (1 in `positions` form).
    """
    return valid / float(max(valid.numel(), 1))


def state_sum(valid: Tensor) -> Tensor:
    """Weights 1 / (states with a valid sample): a state's samples are added, not averaged.

    For losses that carry each sample's probability themselves, whose sum over a state's samples is
    an expectation. They sum to the mean number of valid samples in these states, not to 1; without
    any all are 0.

    Args:
        valid: bool `[..., K]`, a state's samples last.
    """
    return valid / valid.any(-1).sum().clamp(min=1).to(torch.get_default_dtype())


def _game_mean_of(batch: RolloutBatch) -> Tensor:
    # A sequence of one ply: its mean is the ply itself.
    return sample_mean(batch.valid) if batch.form == "positions" else game_mean(batch.valid)


REDUCTIONS: dict[str, Callable[[RolloutBatch], Tensor]] = {
    "sample_mean": lambda batch: sample_mean(batch.valid),
    "game_mean": _game_mean_of,
    "constant_length": lambda batch: constant_length(batch.valid),
}


def reduction_weights(batch: RolloutBatch, reduction: Reduction) -> Tensor:
    """Each sample's weight under the named reduction, shaped like `batch.rewards`.

    Raises:
        ValueError: the reduction is unknown.
    """
    require_choice("reduction", reduction, REDUCTIONS)
    return REDUCTIONS[reduction](batch)
