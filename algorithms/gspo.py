"""GSPO: one importance ratio for a whole game, the geometric mean of its moves'."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, Credit, group_advantages
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, Group, Share, check_fields, require
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, reduction_weights


def game_log_ratio(logprobs: Tensor, old_logprobs: Tensor, valid: Tensor, games: Tensor) -> Tensor:
    """`[N, K]` mean log-ratio of the sample's game, over its valid samples; its gradient is the sample's own.

    s = exp of it is GSPO's sequence ratio (arXiv:2507.18071; read in verl's code, `core_algos.py`, gspo). Added
    over a game's plies and divided by their number, the gradient is that of s where they share an advantage. The
    value is summed in float64. 0 without a valid sample.

    Args:
        logprobs: `[N, K]` learner log-probabilities at the rollout's temperature.
        old_logprobs: `[N, K]` behaviour log-probabilities.
        valid: bool `[N, K]`; what other samples hold, NaN included, does not matter to those that are valid.
        games: int64 `[N]` which game each state belongs to.
    """
    gaps = torch.where(valid, logprobs - old_logprobs, 0.0).detach().double()
    _, game = games.unique(return_inverse=True)
    sums = gaps.new_zeros(2, int(game.max()) + 1)
    sums.index_add_(1, game, torch.stack([gaps.sum(-1), valid.sum(-1).double()]))
    mean = (sums[0] / sums[1].clamp(min=1))[game].unsqueeze(-1).to(logprobs.dtype)
    return mean + (logprobs - logprobs.detach())


@dataclasses.dataclass(frozen=True)
class GSPO:
    """Group Sequence Policy Optimization (arXiv:2507.18071; read in verl's and TRL's code); form `games` alone.

    Attributes:
        group_size: games per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: games whose ratio is beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no
            gradient. The source's values are for texts of thousands of tokens.
        clip_range_high: the upper distance if not `clip_range`.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with: the game's, its own (`step`), or those from its ply on.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "gspo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_range: ClipRange = 3e-4
    clip_range_high: AboveZero | None = 4e-4
    advantage_scale: AdvantageScale = "group"
    credit: Credit = "outcome"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """A game's plies in one minibatch."""
        return Needs(whole_games=True, group_scale=self.advantage_scale)

    def controls(self) -> Controls:
        """The bounds of a game's ratio as configured."""
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean, scaled; shaped like `batch.rewards`.

        Raises:
            ValueError: the batch has the form `positions`.
        """
        require(
            batch.form == "games",
            f"rollout.form is {batch.form!r}, where a sequence is one move: its ratio would be the move's own, and "
            "gspo would be grpo; set rollout.form to games, or train grpo",
        )
        return group_advantages(batch, self.credit, self.gamma, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: the mean over each game's plies, then over the games."""
        return reduction_weights(batch, "game_mean")

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise, with the ratio of the game."""
        logprobs, bounds = dist.gather(batch.slots), (controls.clip_low, controls.clip_high)
        log_ratio = game_log_ratio(logprobs, batch.old_logprobs, batch.valid, batch.games)
        return PolicyLoss(
            clipped_ratio(log_ratio, torch.zeros_like(log_ratio), advantages, *bounds)
        )
