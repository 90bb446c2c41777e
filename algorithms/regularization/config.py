"""The regulariser's settings, checked where they are built."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from algorithms.core.checks import Rule, check_fields, require
from algorithms.regularization.term import NOT_NEGATIVE, Weight
from algorithms.regularization.terms import TermSettings, terms_of

EntropyController = Literal["none", "target", "floor", "recovery"]
KLController = Literal["none", "ziegler", "doubling", "post_mortem"]

COEF_MIN = 1e-6
"""A controller never goes below this: a coefficient of 0 could not be multiplied up again."""

_UPDATES = Rule(
    lambda count: count >= 1 and count == int(count),
    "it counts updates; set it to a whole number >= 1",
)
AboveZero = Annotated[Weight, Rule(lambda value: value > 0, "set it above 0")]
OpenShare = Annotated[Weight, Rule(lambda share: 0 < share <= 1, "it is a share; set it in (0, 1]")]


@dataclasses.dataclass(frozen=True)
class ControllerSettings:
    """Settings of what changes the coefficients during a run.

    Attributes:
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

    ent_controller: EntropyController = "none"
    ent_target: OpenShare = 0.5
    ent_lr: AboveZero = 0.01
    ent_floor: Weight = 1.5
    ent_alert: Weight = 1.5
    ent_stop: Weight = 0.5
    ent_patience: Annotated[int, NOT_NEGATIVE, _UPDATES] = 100
    ent_coef_max: AboveZero = 1.5
    temperature_step: Weight = 0.2
    temperature_max: AboveZero = 2.5
    kl_controller: KLController = "none"
    kl_target: AboveZero = 0.01
    kl_coef_max: AboveZero = 0.2
    kl_horizon: Annotated[
        Weight, Rule(lambda value: value >= 1, "it counts updates; set it to at least 1")
    ] = 10.0
    ref_refresh_interval: Annotated[int, NOT_NEGATIVE, _UPDATES] | None = None


@dataclasses.dataclass(frozen=True)
class CustomTerms:
    """Terms of a user's own.

    Attributes:
        terms: "module:Name" of functions of your own that make a `Term`, with their arguments behind
            it: my_terms:tsallis,coef=0.1.
    """

    terms: tuple[str, ...] = ()


# The fields of the last base come first.
@dataclasses.dataclass(frozen=True)
class RegularizerConfig(CustomTerms, ControllerSettings, TermSettings):
    """Where entropy and KL enter; a coefficient of 0 switches a term off (it is still logged)."""

    def __post_init__(self) -> None:
        check_fields(self)
        self._check_combinations()

    def _check_combinations(self) -> None:
        """Raises ValueError where two settings contradict each other."""
        terms_of(self)  # each checks its own
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
