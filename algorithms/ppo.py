"""PPO: a critic, generalised advantages over both players' plies, and the clipped ratio."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Tensor

from algorithms.core.advantages import actor_critic
from algorithms.core.algorithm import (
    ClipRange,
    Controls,
    Critic,
    DualClip,
    Needs,
    PolicyLoss,
    clip_controls,
)
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import AboveZero, Epochs, NotNegative, Sample, Share, check_fields
from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import clipped_ratio, sample_mean


@dataclasses.dataclass(frozen=True)
class PPO:
    """Proximal Policy Optimization (arXiv:1707.06347) with SB3's details, for two players in turn.

    Attributes:
        group_size: samples per position (or start), >= 1; above 1 in positions form needs gamma 0.
        update_epochs: passes over each batch; more reuse the samples and move further.
        clip_range: ratios beyond 1 - clip_range (A < 0) or 1 + clip_range (A > 0) get no gradient.
        clip_range_high: the upper distance if not `clip_range`; larger slows the loss of entropy.
        dual_clip: ratios beyond it get no gradient where A < 0 (verl: 3); None sets no such bound.
        gamma: discount per ply, in [0, 1]; smaller looks less far ahead.
        gae_lambda: in [0, 1]; 0 trusts the critic, 1 the rewards.
        vf_coef: weight of the value loss, >= 0.
        clip_range_vf: how far a value may move per batch, reward units; None does not clip.
        normalize_advantages: each minibatch's are centred and divided by their standard deviation.
        target_kl: no further pass once KL(behaviour || learner) exceeds 1.5 times this, nats.
    """

    name: ClassVar[str] = "ppo"
    group_size: Sample = 1
    update_epochs: Epochs = 4
    clip_range: ClipRange = 0.2
    clip_range_high: AboveZero | None = None
    dual_clip: DualClip | None = None
    gamma: Share = 0.99
    gae_lambda: Share = 0.95
    vf_coef: NotNegative = 0.5
    clip_range_vf: AboveZero | None = None
    normalize_advantages: bool = True
    target_kl: AboveZero | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def needs(self) -> Needs:
        """A critic, and advantages of unit scale in each minibatch where they are asked for."""
        critic = Critic(self.vf_coef, self.clip_range_vf)
        scaled = self.normalize_advantages
        return Needs(critic=critic, normalize_advantages=scaled, reward_units=not scaled)

    def controls(self) -> Controls:
        """The clip bounds and the stopping KL as configured."""
        return clip_controls(self.clip_range, self.clip_range_high, self.target_kl)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Generalised advantages (r - V(s) with gamma 0), shaped like `batch.rewards`."""
        return actor_critic(batch, self.gamma, self.gae_lambda)

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Shaped like `batch.rewards`: every valid sample weighs the same."""
        return sample_mean(batch.valid, batch.rewards.dtype)

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """`[N, K]` clipped-ratio loss to minimise."""
        bounds = controls.clip_low, controls.clip_high, self.dual_clip
        return PolicyLoss(
            clipped_ratio(dist.gather(batch.slots), batch.old_logprobs, advantages, *bounds)
        )
