"""Algorithms that the zoo does not have yet, written by a user: nothing outside this file knows them."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import group_relative, outcome, start_sign
from algorithms.core.algorithm import Controls, Needs, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, game_mean
from tests.zoo.plain import Plain


@dataclasses.dataclass(frozen=True)
class GSPO(Plain):
    """Group Sequence Policy Optimization (arXiv:2507.18071): one ratio for a whole game.

    s = exp(mean over the game's plies of log ratio); in the token form of the paper, whose value and
    gradient are those of -min(s A, clip(s) A) where all plies of a game share their advantage.
    """

    name: ClassVar[str] = "gspo"
    clip_range: float = 3e-4
    clip_range_high: float = 4e-4

    def needs(self) -> Needs:
        return Needs(whole_games=True)

    def controls(self) -> Controls:
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        worth = start_sign(batch) * outcome(batch)
        played = batch.valid.any(-1, keepdim=True)
        each = group_relative(worth[..., :1], played, batch.group_axis, "group")
        return torch.where(batch.valid, start_sign(batch) * each, 0.0)

    def weights(self, batch: RolloutBatch) -> Tensor:
        return game_mean(batch.valid)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> Tensor:
        logprobs = dist.gather(batch.slots)
        gaps = torch.where(batch.valid, (logprobs - batch.old_logprobs).detach(), 0.0)
        _, game = batch.games.unique(return_inverse=True)
        sums = torch.zeros(int(game.max()) + 1, 2, dtype=gaps.dtype, device=gaps.device)
        sums.index_add_(0, game, torch.cat([gaps, batch.valid.to(gaps.dtype)], -1))
        mean = (sums[:, 0] / sums[:, 1].clamp(min=1))[game].unsqueeze(-1)
        log_s = mean + logprobs - logprobs.detach()
        bounds = controls.clip_low, controls.clip_high
        return clipped_ratio(log_s, torch.zeros_like(log_s), advantages, *bounds)


@dataclasses.dataclass(frozen=True)
class Kondo(Plain):
    """The Kondo gate (arXiv:2603.20526, second-hand): a coin with the delight's odds, weight 1."""

    name: ClassVar[str] = "kondo"
    rho: float = 0.25
    eta: float = 0.1

    def needs(self) -> Needs:
        return Needs(uniforms=True)

    @torch.no_grad()
    def gate(self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor) -> Tensor:
        assert batch.uniforms is not None
        delight = advantages * -dist.gather(batch.slots)
        price = delight[batch.valid].quantile(1 - self.rho)
        odds = torch.sigmoid((delight - price) / self.eta)
        return (batch.valid & (batch.uniforms < odds)).to(advantages.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> Tensor:
        loss = super().policy_loss(dist, batch, advantages, controls)
        return self.gate(dist, batch, advantages) * loss
