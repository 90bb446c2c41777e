"""Whether rewards see what the scores say: pairs of a group's members, looked at from both sides."""

from __future__ import annotations

import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch

MAX_SCORE_CP = 2000
"""Scores are clipped to it: how much further than won a position is does not matter."""

MIN_GAP_CP = 50
MAX_REWARD_SHARE = 0.01


@torch.no_grad()
def blind_pairs(batch: RolloutBatch) -> tuple[Tensor, Tensor] | None:
    """(bool `[..., M, M]` True for pairs with nearly one reward, bool of the pairs that should not).

    The pairs are of different valid members of a group whose scores, clipped to +-2000 centipawns,
    differ by at least 50. Nearly one reward: they differ by at most 1 % of the largest difference
    within any group of the rollout (at most, so that rewards that are all equal see nothing). In the
    form `games` a group is looked at on its first ply, where its members still share a position.

    None without scores.
    """
    if batch.score_cp is None:
        return None
    valid, rewards, score_cp = batch.valid, batch.rewards.double(), batch.score_cp.double()
    if batch.form == "games":
        valid, rewards, score_cp = valid[..., 0], rewards[..., 0], score_cp[..., 0]
    both = valid.unsqueeze(-1) & valid.unsqueeze(-2)
    apart = torch.where(both, _gaps(score_cp.clamp(-MAX_SCORE_CP, MAX_SCORE_CP)), 0.0) >= MIN_GAP_CP
    gaps = torch.where(both, _gaps(rewards), 0.0)
    return gaps <= MAX_REWARD_SHARE * gaps.max(), apart


def _gaps(values: Tensor) -> Tensor:
    """`[..., M, M]` distances between the members `[..., M]`."""
    return (values.unsqueeze(-1) - values.unsqueeze(-2)).abs()
