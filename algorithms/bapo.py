"""BAPO: the clipped ratio, whose bounds move in each minibatch until good moves weigh as much as bad ones."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.core.advantages import AdvantageScale, Credit, group_advantages
from algorithms.core.algorithm import ClipRange, Controls, Needs, PolicyLoss, clip_controls
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import (
    AboveZero,
    Epochs,
    Group,
    NotNegative,
    Positive,
    Share,
    check_fields,
    require,
)
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, sample_mean


def ladder(start: float, end: float, step: float) -> list[float]:
    """From start to end in steps of this size (the last may be smaller); the start alone where they are equal."""
    rungs = math.ceil(abs(end - start) / step - 1e-9)
    return [start + math.copysign(each * step, end - start) for each in range(rungs)] + [end]


@torch.no_grad()
def balanced_bounds(
    ratio: Tensor,
    advantages: Tensor,
    valid: Tensor,
    lows: list[float],
    highs: list[float],
    target: float,
) -> tuple[float, float]:
    """(clip_low, clip_high) at which positive contributions reach `target` times the negative ones, or the last.

    A sample contributes what the clipped ratio makes of it: min(r, 1 + clip_high) A where A > 0, and
    max(r, 1 - clip_low) |A| where A < 0. The lower bound goes through `lows` first, at the first of `highs`; then the
    upper one through `highs`, at the last of `lows`. BAPO (arXiv:2510.18927; read in the authors' code,
    WooooDyy/BAPO, `recipe/bapo/policy_loss.py`). A raised lower bound makes negative contributions larger, so it alone
    reaches no target: the search then goes on to the upper bound. Sums are in float64.

    Args:
        ratio: `[N, K]` learner over behaviour.
        advantages: `[N, K]`.
        valid: bool `[N, K]`; what other samples hold, NaN included, is never looked at.
        lows: distances of the lower bound from 1, from the first that is tried.
        highs: those of the upper bound.
        target: positive over negative contributions, >= 0; without negative ones it is reached.
    """
    ratio, advantages = ratio[valid].double(), advantages[valid].double()
    good, bad = advantages.clamp(min=0), (-advantages).clamp(min=0)
    positive = [(ratio.clamp(max=1 + high) * good).sum() for high in highs]
    negative = [(ratio.clamp(min=1 - low) * bad).sum() for low in lows]
    tried = [(low, highs[0]) for low in lows] + [(lows[-1], high) for high in highs[1:]]
    gained = torch.stack([positive[0]] * len(lows) + positive[1:])
    lost = torch.stack(negative + [negative[-1]] * (len(highs) - 1))
    reached = (gained >= target * lost).nonzero()
    return tried[int(reached[0]) if len(reached) else -1]


@dataclasses.dataclass(frozen=True)
class BAPO:
    """Balanced Policy Optimization with adaptive clipping (arXiv:2510.18927; read in the authors' code).

    Attributes:
        group_size: samples per group, >= 2; more means a less noisy baseline and more evaluations.
        update_epochs: passes over each batch; above 1 reuses samples and lets the ratio leave 1.
        clip_range: distance of the lower ratio bound from 1 at the start of each minibatch's search.
        clip_range_min: the lower distance shrinks no further than this.
        clip_range_high: distance of the upper ratio bound at the start.
        clip_range_high_max: the upper distance grows no further than this.
        clip_step: by which a distance changes at a time, > 0.
        balance: positive over negative contributions that end the search, >= 0; 0 never moves a bound.
        advantage_scale: divide by the standard deviation of the `group`, the `batch`, or nothing.
        credit: which rewards a move is credited with; all but its own (`step`) need rollout.form games.
        gamma: discount per ply of return_to_go, in [0, 1]; smaller looks less far ahead.
    """

    name: ClassVar[str] = "bapo"
    group_size: Group = 8
    update_epochs: Epochs = 1
    clip_range: ClipRange = 0.4
    clip_range_min: ClipRange = 0.2
    clip_range_high: AboveZero = 0.2
    clip_range_high_max: Positive = 1.0
    clip_step: Positive = 0.05
    balance: NotNegative = 1.0
    advantage_scale: AdvantageScale = "none"
    credit: Credit = "step"
    gamma: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            self.clip_range_min <= self.clip_range
            and self.clip_range_high <= self.clip_range_high_max,
            f"clip_range is {self.clip_range}, clip_range_min {self.clip_range_min}, clip_range_high "
            f"{self.clip_range_high} and clip_range_high_max {self.clip_range_high_max}: both bounds move up; set "
            "clip_range_min <= clip_range and clip_range_high <= clip_range_high_max",
        )
        widest = max(self.clip_range, self.clip_range_high_max)
        require(
            widest / self.clip_step <= 1000,
            f"clip_step is {self.clip_step} and clip_range_high_max {self.clip_range_high_max}: a minibatch's search "
            f"takes at most 1,000 steps; set clip_step to at least {widest / 1000:g}, or clip_range_high_max lower",
        )

    def needs(self) -> Needs:
        """Nothing beyond sampled moves and rewards."""
        return Needs(group_scale=self.advantage_scale)

    def controls(self) -> Controls:
        """The bounds that every minibatch's search starts from; `policy/clip_fraction_*` count by them."""
        return clip_controls(self.clip_range, self.clip_range_high)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Credited rewards minus their group's mean, scaled; shaped like `batch.rewards`."""
        return group_advantages(batch, self.credit, self.gamma, self.advantage_scale)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise, with the bounds of this minibatch."""
        logprobs, low, high = dist.gather(batch.slots), controls.clip_low, controls.clip_high
        # A controller may have moved the bounds beyond where the search would take them.
        lows = ladder(low, min(low, self.clip_range_min), self.clip_step)
        highs = ladder(high, max(high, self.clip_range_high_max), self.clip_step)
        ratio = (logprobs - batch.old_logprobs).exp()
        bounds = balanced_bounds(ratio, advantages, batch.valid, lows, highs, self.balance)
        return PolicyLoss(clipped_ratio(logprobs, batch.old_logprobs, advantages, *bounds))
