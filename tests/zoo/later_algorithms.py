"""Algorithms that the zoo does not have yet, written by a user: nothing outside this file knows them."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import group_relative, outcome, start_sign
from algorithms.core.algorithm import Controls, Needs, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import require_count
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


@dataclasses.dataclass(frozen=True)
class MaxRL(Plain):
    """MaxRL (arXiv:2602.02710, second-hand): (r - mean) / mean of a success that is 0 or 1.

    A move succeeds if it loses at most `tolerance_cp` centipawns. `keep_failed` gives -1 to the
    members of a group without any success, where the released code gives 0.
    """

    name: ClassVar[str] = "maxrl"
    tolerance_cp: int = 50
    keep_failed: bool = False

    def advantages(self, batch: RolloutBatch) -> Tensor:
        if batch.score_cp is None or batch.before_cp is None:
            raise ValueError("maxrl needs scores in centipawns: give the run an evaluator")
        before = batch.before_cp
        before = before.unsqueeze(-1) if batch.form == "positions" else before
        success = batch.valid & (batch.score_cp - before >= -self.tolerance_cp)
        axis = batch.group_axis
        hits = success.double().sum(axis, keepdim=True)
        mean = hits / batch.valid.sum(axis, keepdim=True).clamp(min=1)
        ratio = torch.where(hits > 0, success / torch.where(hits > 0, mean, 1.0), 0.0) - 1.0
        used = batch.valid & ((hits > 0) | self.keep_failed)
        return torch.where(used, ratio, 0.0).to(batch.rewards.dtype)


@dataclasses.dataclass(frozen=True)
class PassAtK(Plain):
    """Pass@k training (arXiv:2508.10751): the reward is that of the best of k samples, 0 or 1.

    A member's advantage is the mean over the group's k-subsets that it is in, standardised over all
    k-subsets, in closed form.
    """

    name: ClassVar[str] = "pass_at_k"
    k: int = 2
    threshold: float = -0.02
    clip_range: float = 0.2

    def __post_init__(self) -> None:
        require_count("k", self.k, 1, "the best of no sample has no reward")
        if self.k > self.group_size:
            raise ValueError(
                f"k is {self.k} and group_size {self.group_size}: a group has no {self.k} samples; "
                "set k <= group_size"
            )

    def controls(self) -> Controls:
        return clip_controls(self.clip_range, None)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        choose = torch.tensor(
            [[math.comb(n, k) for k in range(self.k + 1)] for n in range(self.group_size + 1)],
            dtype=torch.float64,
        )
        axis, success = batch.group_axis, batch.valid & (batch.rewards > self.threshold)
        total = batch.valid.sum(axis, keepdim=True)
        failed = total - success.sum(axis, keepdim=True)
        usable = total >= self.k
        none = choose[failed, self.k] / choose[total, self.k].clamp(min=1)
        others = choose[(failed - 1).clamp(min=0), self.k - 1]
        others = others / choose[(total - 1).clamp(min=0), self.k - 1].clamp(min=1)
        sigma = ((1 - none) * none).sqrt()
        centred = torch.where(success, none, none - others)
        used = batch.valid & usable & (sigma > 0)
        found = torch.where(used, centred / torch.where(sigma > 0, sigma, 1.0), 0.0)
        return found.to(batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> Tensor:
        bounds = controls.clip_low, controls.clip_high
        return clipped_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds)


@dataclasses.dataclass(frozen=True)
class MaxAtK(Plain):
    """The best of a group of k alone is paid, by what it has over the second (arXiv:2503.19595)."""

    name: ClassVar[str] = "max_at_k"

    def needs(self) -> Needs:
        return Needs(single_step=True)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        axis = batch.group_axis
        rewards = batch.rewards.masked_fill(~batch.valid, -torch.inf)
        first, second = rewards.topk(2, axis).values.split(1, axis)
        lead = torch.where(second.isfinite(), first - second, 0.0)
        return torch.where(rewards == first, lead, 0.0)
