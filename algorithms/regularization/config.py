"""The regulariser's settings, checked where they are built."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

from algorithms.core.checks import require, require_choice

EntropyEstimator = Literal["exact", "sampled"]
KLOldEstimator = Literal["exact", "k1", "k2", "k3", "weighted_k3", "forward_k1"]
# forward_k1 needs moves sampled from the other policy, and they are the behaviour policy's.
KLRefEstimator = Literal["exact", "k1", "k2", "k3", "weighted_k3"]
Placement = Literal["loss", "reward"]
EntropyController = Literal["none", "target", "floor", "recovery"]
KLController = Literal["none", "ziegler", "doubling", "post_mortem"]

COEF_MIN = 1e-6
"""A controller never goes below this: a coefficient of 0 could not be multiplied up again."""

_CHOICES = {
    "ent_estimator": EntropyEstimator,
    "kl_old_estimator": KLOldEstimator,
    "kl_ref_estimator": KLRefEstimator,
    "kl_old_placement": Placement,
    "kl_ref_placement": Placement,
    "ent_controller": EntropyController,
    "kl_controller": KLController,
}
_ABOVE_ZERO = ("ent_lr", "ent_coef_max", "temperature_max", "kl_target", "kl_coef_max")
_COUNTS = ("ent_patience", "ref_refresh_interval")


@dataclasses.dataclass(frozen=True)
class RegularizerConfig:
    """Where entropy and KL enter; a coefficient of 0 switches a term off (it is still logged).

    Attributes:
        ent_coef: weight of the entropy bonus, >= 0; larger keeps the policy broader.
        ent_coef_final: value reached at the end of training, linearly in the progress; None keeps
            it constant.
        ent_estimator: "exact" over all legal moves; "sampled" repeats the post-mortems' bonus,
            which rewards no entropy (see estimators.py): an experiment switch.
        kl_old_coef: weight of KL(policy || behaviour policy), >= 0: a trust region that vanishes at
            each new batch.
        kl_old_estimator: "exact", or at the sampled moves (experiments) k1, k2, k3, weighted_k3, or
            forward_k1: mean(l_old - l), the penalty that the post-mortems called KL.
        kl_old_placement: in the "loss" (gradient through it) or subtracted from the "reward".
        kl_ref_coef: weight of KL(policy || reference policy), >= 0: an anchor that shapes the
            optimum.
        kl_ref_estimator: as kl_old_estimator, without forward_k1.
        kl_ref_placement: as kl_old_placement.
        repo_coef: REPO's beta, >= 0: the advantage loses beta x (log pi + entropy) of its move.
        repo_r_coef: REPO-R's zeta, >= 0: advantages of unlikely moves grow if positive and shrink
            if negative.
        kl_cov_coef: weight of KL-Cov's |log ratio| on the moves that cost most entropy, >= 0; no
            gradient until the policy has left the one that sampled.
        kl_cov_fraction: share of a minibatch's moves that KL-Cov holds back, in (0, 1]. The paper's
            2e-4 is meant for far larger batches.
        ent_controller: what moves ent_coef: "none" (or ent_coef_final), "target" (towards a
            normalised entropy), "floor" (boosts under ent_floor), "recovery" (post-mortem 2).
        ent_target: entropy / ln(legal moves) that "target" aims at, in (0, 1].
        ent_lr: step of "target" in ln(ent_coef) per unit of normalised entropy, > 0.
        ent_floor: entropy in nats below which "floor" boosts.
        ent_alert: entropy in nats below which "recovery" acts.
        ent_stop: entropy in nats below which "recovery" ends the run.
        ent_patience: updates in a row below the threshold before a boost, >= 1.
        ent_coef_max: largest ent_coef that a controller may set.
        temperature_step: added to the rollout's temperature at each recovery, >= 0.
        temperature_max: highest temperature that recovery may set.
        kl_controller: what moves the one KL coefficient that is on: "none", "ziegler", "doubling"
            (PPO paper), "post_mortem" (x1.2 or /1.2 at every update).
        kl_target: KL in nats that the controller aims at, > 0.
        kl_coef_max: largest KL coefficient that a controller may set.
        kl_horizon: updates over which "ziegler" acts, >= 1; more is slower.
        ref_refresh_interval: updates after which the reference becomes a copy of the policy; None
            never.
    """

    ent_coef: float = 0.0
    ent_coef_final: float | None = None
    ent_estimator: EntropyEstimator = "exact"
    kl_old_coef: float = 0.0
    kl_old_estimator: KLOldEstimator = "exact"
    kl_old_placement: Placement = "loss"
    kl_ref_coef: float = 0.0
    kl_ref_estimator: KLRefEstimator = "exact"
    kl_ref_placement: Placement = "loss"
    repo_coef: float = 0.0
    repo_r_coef: float = 0.0
    kl_cov_coef: float = 0.0
    kl_cov_fraction: float = 0.02
    ent_controller: EntropyController = "none"
    ent_target: float = 0.5
    ent_lr: float = 0.01
    ent_floor: float = 1.5
    ent_alert: float = 1.5
    ent_stop: float = 0.5
    ent_patience: int = 100
    ent_coef_max: float = 1.5
    temperature_step: float = 0.2
    temperature_max: float = 2.5
    kl_controller: KLController = "none"
    kl_target: float = 0.01
    kl_coef_max: float = 0.2
    kl_horizon: float = 10.0
    ref_refresh_interval: int | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            require_choice(name, getattr(self, name), get_args(choices))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name not in _CHOICES and value is not None and not 0 <= value < math.inf:
                raise ValueError(
                    f"{field.name} is {value}: the sign is fixed (entropy is rewarded, KL is "
                    "punished); set it to a finite number >= 0"
                )
        for name in _ABOVE_ZERO:
            require(getattr(self, name) > 0, f"{name} is {getattr(self, name)}: set it above 0")
        for name in _COUNTS:
            count = getattr(self, name)
            require(
                count is None or (count >= 1 and count == int(count)),
                f"{name} is {count}: it counts updates; set it to a whole number >= 1",
            )
        for name in ("ent_target", "kl_cov_fraction"):
            share = getattr(self, name)
            require(0 < share <= 1, f"{name} is {share}: it is a share; set it in (0, 1]")
        require(
            self.kl_horizon >= 1,
            f"kl_horizon is {self.kl_horizon}: it counts updates; set it to at least 1",
        )
        self._check_combinations()

    def _check_combinations(self) -> None:
        """Raises ValueError where two settings contradict each other."""
        for term, estimator, placement in (
            ("kl_old", self.kl_old_estimator, self.kl_old_placement),
            ("kl_ref", self.kl_ref_estimator, self.kl_ref_placement),
        ):
            require(
                placement == "loss" or estimator in ("k1", "k2", "k3"),
                f'{term}_placement is "reward" and {term}_estimator "{estimator}": a reward belongs '
                "to one move, the exact KL to a whole state, and the surrogate applies the ratio of "
                f'weighted_k3 already; set {term}_estimator to k1 (or k2, k3) or placement to "loss"',
            )
        require(
            self.repo_coef == 0 or self.repo_r_coef == 0,
            f"repo_coef is {self.repo_coef} and repo_r_coef {self.repo_r_coef}: both reshape the "
            "same advantage and their order would matter; set one of them to 0",
        )
        require(
            self.ref_refresh_interval is None or self.kl_ref_coef > 0,
            f"ref_refresh_interval is {self.ref_refresh_interval} and kl_ref_coef 0: there is no "
            "reference to refresh; set kl_ref_coef above 0 or leave the interval out",
        )
        if self.ent_controller != "none":
            self._check_ent_controller()
        if self.kl_controller != "none":
            self._check_kl_controller()

    def _check_ent_controller(self) -> None:
        require(
            self.ent_coef_final is None,
            f'ent_coef_final is {self.ent_coef_final} and ent_controller "{self.ent_controller}": '
            "both move ent_coef; leave one of them out",
        )
        require(
            COEF_MIN <= self.ent_coef <= self.ent_coef_max,
            f'ent_coef is {self.ent_coef}: ent_controller "{self.ent_controller}" multiplies it; '
            f"start it in [{COEF_MIN:g}, ent_coef_max = {self.ent_coef_max}]",
        )
        require(
            self.ent_stop <= self.ent_alert,
            f"ent_stop is {self.ent_stop} and ent_alert {self.ent_alert}: the run would end before "
            "the first alert; set ent_stop <= ent_alert",
        )

    def _check_kl_controller(self) -> None:
        coefs = (self.kl_old_coef, self.kl_ref_coef)
        require(
            sum(coef > 0 for coef in coefs) == 1,
            f'kl_controller is "{self.kl_controller}", kl_old_coef {self.kl_old_coef} and '
            f"kl_ref_coef {self.kl_ref_coef}: it moves one coefficient; set exactly one above 0",
        )
        require(
            COEF_MIN <= max(coefs) <= self.kl_coef_max,
            f'the KL coefficient is {max(coefs)}: kl_controller "{self.kl_controller}" multiplies '
            f"it; start it in [{COEF_MIN:g}, kl_coef_max = {self.kl_coef_max}]",
        )

    @property
    def averages_samples(self) -> bool:
        """True if the loss averages over a state's samples with equal weight.

        Such a term means nothing where a state's samples are all its legal moves (algorithm
        `exact`): they were not drawn from the policy.
        """
        sampled = (
            (self.ent_coef, "loss", self.ent_estimator),
            (self.kl_old_coef, self.kl_old_placement, self.kl_old_estimator),
            (self.kl_ref_coef, self.kl_ref_placement, self.kl_ref_estimator),
        )
        return self.kl_cov_coef > 0 or any(
            coef > 0 and placement == "loss" and estimator != "exact"
            for coef, placement, estimator in sampled
        )
