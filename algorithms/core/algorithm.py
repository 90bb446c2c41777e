"""What the update asks of an algorithm, and the record of what a controller may change."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, ClassVar, NamedTuple, Protocol

from torch import Tensor

from algorithms.core.advantages import AdvantageScale
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.checks import (
    AboveZero,
    NotNegative,
    Positive,
    Rule,
    Share,
    check_fields,
    require,
)
from algorithms.core.distribution import MaskedCategorical

ClipRange = Annotated[
    float,
    Rule(lambda distance: 0 < distance <= 1, "1 minus it bounds the ratio; set it in (0, 1]"),
]
DualClip = Annotated[
    float,
    Rule(
        lambda ratio: 1 < ratio < math.inf,
        "it is a ratio, and on-policy the ratio is 1; set it to a finite number above 1, or to None for no such bound",
    ),
]


@dataclasses.dataclass(frozen=True)
class Controls:
    """Current values of what schedules and controllers may change; a controller returns a new record.

    An algorithm's loss reads them here, never from its own fields.

    Attributes:
        clip_low: distance of the lower ratio bound from 1, in (0, 1]; 1 switches it off.
        clip_high: distance of the upper ratio bound from 1, > 0; infinity switches it off.
        target_kl: the remaining passes over a batch are left out once the mean KL(behaviour ||
            learner) of a pass exceeds 1.5 times this, nats (SB3's rule); infinity switches it off.
    """

    clip_low: ClipRange = 1.0
    clip_high: AboveZero = math.inf
    target_kl: AboveZero = math.inf

    def __post_init__(self) -> None:
        check_fields(self)


def clip_controls(
    clip_range: float, clip_range_high: float | None, target_kl: float | None = None
) -> Controls:
    """Controls with these bounds; None repeats the lower distance, or never stops early.

    Raises:
        ValueError: they make no range.
    """
    return Controls(
        clip_low=clip_range,
        clip_high=clip_range if clip_range_high is None else clip_range_high,
        target_kl=math.inf if target_kl is None else target_kl,
    )


@dataclasses.dataclass(frozen=True)
class Critic:
    """The value function that an algorithm trains beside the policy.

    Attributes:
        vf_coef: weight of the value loss, >= 0.
        clip_range_vf: the value may leave its old one by this much before its gradient stops
            (reward units); None does not clip.
    """

    vf_coef: NotNegative = 0.5
    clip_range_vf: AboveZero | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclasses.dataclass(frozen=True)
class Tempered:
    """A slice of each batch that gives way to successes of a further rollout at another temperature (AEPO).

    Attributes:
        share: of the batch's groups that give way where entropy is at `ent_target` or below; above it half as many.
        ent_target: mean entropy of the rollout's states, nats, that the temperatures pull towards.
        temperature_low: of the further rollout where entropy is above the target, times the rollout's.
        temperature_high: where it is at the target or below, likewise.
    """

    share: Share
    ent_target: NotNegative
    temperature_low: Positive
    temperature_high: Positive

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            self.temperature_low <= self.temperature_high,
            f"temperature_low is {self.temperature_low} and temperature_high {self.temperature_high}: the low one "
            "is taken where entropy is too high; set it to temperature_high at most",
        )


@dataclasses.dataclass(frozen=True)
class Needs:
    """What the loop provides for an algorithm beyond sampled moves and their rewards.

    Attributes:
        critic: a value head is trained, and the batch carries `values`, `next_values` and `returns`.
        all_moves: every legal move is scored: a state's K samples are all its legal slots.
        live_groups: groups whose rewards are all equal are replaced by further samples (DAPO).
        single_step: one optimizer step for each batch, so that no gradient is ever off-policy.
        whole_games: all plies of a game stay in one minibatch.
        uniforms: `FlatBatch.uniforms` holds a random number for each sample.
        normalize_advantages: each minibatch's advantages are centred and divided by their standard
            deviation (`core.advantages.normalized`) before the regulariser reshapes them, so that its
            coefficients have the unit of the loss.
        corrects_sampler: its loss corrects for a sampler that is not the learner, by the probabilities that the
            sampler recorded; no correction may come on top of it.
        reward_units: the advantages have the unit of the rewards: nothing divides them by a standard
            deviation. Otherwise the same coefficient has another weight against the rewards in every
            group or minibatch, and has no single optimum.
        group_scale: the advantages are rewards less the mean of their group, divided by this
            (`core.advantages.group_relative`), up to one factor; then `reward_units` follows from it. None: they are
            something else. The signal chain compares them.
        reference: `FlatBatch.ref_legal_logprobs` holds the reference policy's distribution, and the loss may pull
            towards it where the advantages are 0.
        fits_rewards: the policy is fitted to a distribution that the rewards make, so the loss need not go where the
            advantages point.
        success_rewards: the rewards are 1 or 0, success or failure (`env.reward` success by default). The
            advantages refuse any other with `core.advantages.require_success`.
        tempered: a slice of the batch is replaced by successes at another temperature, and `RolloutBatch.tempered`
            says where (form `positions`).
    """

    critic: Critic | None = None
    all_moves: bool = False
    live_groups: bool = False
    single_step: bool = False
    whole_games: bool = False
    uniforms: bool = False
    normalize_advantages: bool = False
    corrects_sampler: bool = False
    reward_units: bool = True
    group_scale: AdvantageScale | None = None
    reference: bool = False
    fits_rewards: bool = False
    success_rewards: bool = False
    tempered: Tempered | None = None

    def __post_init__(self) -> None:
        if self.group_scale is not None and self.group_scale != "none":
            object.__setattr__(self, "reward_units", False)


class PolicyLoss(NamedTuple):
    """What `Algorithm.policy_loss` gives for one minibatch.

    Attributes:
        loss: `[N, K]` of each sample, to minimise; the gate is in it.
        gate: `[N, K]` share of each valid sample's gradient let through, no gradient, to be logged; None if all of it.
    """

    loss: Tensor
    gate: Tensor | None = None


class Algorithm(Protocol):
    """A frozen dataclass whose fields are the hyperparameters. It cannot reach the regulariser.

    The loss that the loop minimises over a batch is sum(weights * policy_loss) plus the mean of the
    regulariser over the states; minibatches are unbiased shares of it.

    Attributes:
        name: key in `ALGORITHMS`; of a class outside it, what the class is called.
    """

    name: ClassVar[str]

    @property
    def group_size(self) -> int:
        """Samples per group; not read where all moves are scored."""
        ...

    @property
    def update_epochs(self) -> int:
        """Passes over each batch."""
        ...

    def needs(self) -> Needs:
        """What the loop must provide."""
        ...

    def controls(self) -> Controls:
        """A fresh `Controls` record with this algorithm's starting values."""
        ...

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Advantages shaped like `batch.rewards`; 0 where not valid.

        Raises:
            ValueError: the batch cannot carry this credit assignment.
        """
        ...

    def weights(self, batch: RolloutBatch) -> Tensor:
        """Each sample's share of the batch's policy loss, shaped like `batch.rewards`; 0 where not valid."""
        ...

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> PolicyLoss:
        """Loss of each sample, to minimise; of advantages of 0 without gradient, unless `Needs.reference`."""
        ...
