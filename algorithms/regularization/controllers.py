"""The regulariser's settings, checked where they are built, and the controllers that move its coefficients.

A new term is a file beside this one, and its two names here: the settings among the bases of `TermSettings`, the
function in `MAKERS`. A term of your own is `module:Name` in the setting
`regularizer.terms` (docs/extending.md). Controllers are pure functions of (state, measurements, config).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from algorithms.core.algorithm import Controls
from algorithms.core.checks import OpenShare, Rule, check_fields, require
from algorithms.regularization.entropy_and_kl import (
    EntropySettings,
    KLOldSettings,
    KLRefSettings,
    entropy,
    kl_old,
    kl_ref,
)
from algorithms.regularization.kl_cov import KLCovSettings, kl_cov_term
from algorithms.regularization.repo import RepoSettings, repo, repo_r
from algorithms.regularization.term import NOT_NEGATIVE, Term, Weight

MAKERS: tuple[Callable[[Any], Term], ...] = (entropy, kl_old, kl_ref, repo, repo_r, kl_cov_term)
"""Each makes its term of the settings."""


# The fields of the last base come first.
@dataclasses.dataclass(frozen=True)
class TermSettings(KLCovSettings, RepoSettings, KLRefSettings, KLOldSettings, EntropySettings):
    """The settings of all terms, flat."""


def terms_of(settings: TermSettings) -> tuple[Term, ...]:
    """The terms that the settings mean, those that are off among them.

    Raises:
        ValueError: a term's settings contradict each other.
    """
    return tuple(make(settings) for make in MAKERS)


EntropyController = Literal["none", "target", "floor", "recovery", "adaptive"]
KLController = Literal["none", "ziegler", "doubling", "post_mortem"]
ClipController = Literal["none", "adapo"]
RepoRController = Literal["none", "doubling"]

COEF_MIN = 1e-6
"""Controllers that multiply ent_coef or a KL weight keep it above this: 0 could not be multiplied up again."""

_UPDATES = Rule(
    lambda count: count >= 1 and count == int(count),
    "it counts updates; set it to a whole number >= 1",
)
AboveZero = Annotated[Weight, Rule(lambda value: value > 0, "set it above 0")]


@dataclasses.dataclass(frozen=True)
class ControllerSettings:
    """Settings of what changes the coefficients during a run.

    Attributes:
        ent_controller: what moves ent_coef: "none" (or ent_coef_final), "target" (towards a
            normalised entropy), "floor" (boosts under ent_floor), "recovery" (post-mortem 2),
            "adaptive" (rewards entropy at or below ent_floor alone; Skywork-OR1).
        ent_target: entropy / ln(legal moves) that "target" aims at, in (0, 1].
        ent_lr: step of "target" in ln(ent_coef) per unit of normalised entropy, > 0.
        ent_floor: entropy in nats below which "floor" boosts, and up to which "adaptive" acts.
        ent_coef_step: what "adaptive" adds to ent_coef or takes from it at each update, > 0.
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
        ent_hold: entropy in nats that clip_controller and repo_r_controller hold; None: that of the first
            rollout.
        clip_controller: what moves the algorithm's upper clip bound: "none", or "adapo" (wider below
            the entropy to hold, narrower above it).
        clip_step: "adapo" multiplies the bound's distance from 1 by 1 + clip_step, or divides it, > 0.
        clip_high_min: smallest distance that "adapo" may set, > 0.
        clip_high_max: largest distance that "adapo" may set.
        repo_r_controller: what moves repo_r_coef: "none", or "doubling" (twice or half at every update, and
            below 0 while the entropy is above the one to hold).
        repo_r_coef_min: smallest size of repo_r_coef, > 0; halved below it, its sign turns.
        repo_r_coef_max: largest size of repo_r_coef that "doubling" may set.
        ref_refresh_interval: updates after which the reference becomes a copy of the policy; None
            never.
    """

    ent_controller: EntropyController = "none"
    ent_target: OpenShare = 0.5
    ent_lr: AboveZero = 0.01
    ent_floor: Weight = 1.5
    ent_coef_step: AboveZero = 0.001
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
    ent_hold: Weight | None = None
    clip_controller: ClipController = "none"
    clip_step: AboveZero = 0.1
    clip_high_min: AboveZero = 0.1
    clip_high_max: AboveZero = 1.0
    repo_r_controller: RepoRController = "none"
    repo_r_coef_min: AboveZero = 1e-4
    repo_r_coef_max: AboveZero = 0.05
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

    def ent_coef_at(self, progress: float) -> float:
        """`ent_coef` on its line when `progress` (0..1) of the budget is used, where no controller moves it."""
        final = self.ent_coef if self.ent_coef_final is None else self.ent_coef_final
        return self.ent_coef + (final - self.ent_coef) * progress

    def _check_combinations(self) -> None:
        """Raises ValueError where two settings contradict each other."""
        terms_of(self)  # each checks its own
        require(
            self.ref_refresh_interval is None or self.kl_ref_coef > 0,
            f"ref_refresh_interval is {self.ref_refresh_interval} and kl_ref_coef 0: there is no "
            "reference to refresh; set kl_ref_coef above 0 or leave the interval out",
        )
        require(
            self.clip_high_min <= self.clip_high_max,
            f"clip_high_min is {self.clip_high_min} and clip_high_max {self.clip_high_max}: "
            "set clip_high_min <= clip_high_max",
        )
        require(
            self.repo_r_controller == "none"
            or self.repo_r_coef_min <= self.repo_r_coef <= self.repo_r_coef_max,
            f'repo_r_coef is {self.repo_r_coef}: repo_r_controller "{self.repo_r_controller}" multiplies it; '
            f"start it in [repo_r_coef_min, repo_r_coef_max] = [{self.repo_r_coef_min}, {self.repo_r_coef_max}]",
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
        acts = "adds to" if self.ent_controller == "adaptive" else "multiplies"
        require(
            COEF_MIN <= self.ent_coef <= self.ent_coef_max,
            f'ent_coef is {self.ent_coef}: ent_controller "{self.ent_controller}" {acts} it; '
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


@dataclasses.dataclass(frozen=True)
class Measurements:
    """What a controller reads, measured on the new rollout before the optimizer steps.

    Attributes:
        progress: spent share of the budget, in [0, 1].
        update: updates done so far.
        entropy: mean exact entropy of the behaviour policy, nats.
        entropy_normalized: mean of entropy / ln(legal moves), in [0, 1].
        kl_old: the last update's `reg/kl_old`, nats; before the first one the mean KL(learner ||
            sampler), which is 0 unless the two disagree.
        kl_ref: mean KL(behaviour || reference), nats; None without a reference.
    """

    progress: float
    update: int
    entropy: float
    entropy_normalized: float
    kl_old: float
    kl_ref: float | None


@dataclasses.dataclass(frozen=True)
class Signals:
    """What the loop has to do after a controller ran.

    Attributes:
        temperature: of the next rollouts.
        controls: the algorithm's clip bounds and target KL from now on.
        warnings: for the user; each is said once per run.
        refresh_reference: copy the policy into the reference.
        stop: why the run must end, after a checkpoint; None to go on.
    """

    temperature: float
    controls: Controls
    warnings: tuple[str, ...] = ()
    refresh_reference: bool = False
    stop: str | None = None


@dataclasses.dataclass(frozen=True)
class State:
    """The part of the regulariser that changes during a run.

    Attributes:
        coefs: current weights by name, of the terms whose weight may move: `ent_coef`, `kl_old_coef`, ...;
            REPO-R's alone may be below 0.
        temperature: of the next rollouts.
        low_updates: updates in a row whose entropy was below the threshold.
        ent_coef_held: the weight that "adaptive" has arrived at, which counts while the entropy is low;
            None without it.
        ent_first: entropy of the first rollout, nats; None where no controller holds it.
        clip_high: the upper clip distance as its controller has put it; None without one.
        started: measurements have been seen.
        said: keys of the warnings that were given.
    """

    coefs: Mapping[str, float]
    temperature: float
    low_updates: int = 0
    ent_coef_held: float | None = None
    ent_first: float | None = None
    clip_high: float | None = None
    started: bool = False
    said: tuple[str, ...] = ()

    def moved(self, **coefs: float) -> State:
        """The same state with these weights."""
        return dataclasses.replace(self, coefs={**self.coefs, **coefs})

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings by name, the weights among them."""
        values = {name: value for name, value in vars(self).items() if name != "coefs"}
        return {**self.coefs, **values, "said": list(self.said)}

    def from_dict(self, values: Mapping[str, Any]) -> State:
        """The state that `to_dict` wrote; what is not among the values stays as it is here."""
        rest = {**self.to_dict(), **values}
        coefs = {name: rest.pop(name) for name in self.coefs}
        return State(coefs, **{**rest, "said": tuple(rest["said"])})


def schedule(state: State, measured: Measurements, config: RegularizerConfig) -> State:
    """`ent_coef` on the straight line to `ent_coef_final`; untouched where that is None."""
    if config.ent_coef_final is None:
        return state
    return state.moved(ent_coef=config.ent_coef_at(measured.progress))


def target(state: State, measured: Measurements, config: RegularizerConfig) -> State:
    """ln(ent_coef) moved by ent_lr (ent_target - normalised entropy), within the bounds.

    SAC's automatic temperature (arXiv:1812.05905) as an integral controller on the measured
    entropy, not a gradient step on a loss; normalised, as positions differ in their legal moves.
    """
    gap = config.ent_target - _finite("entropy_normalized", measured.entropy_normalized)
    moved = state.coefs["ent_coef"] * math.exp(config.ent_lr * gap)
    return state.moved(ent_coef=_within(moved, config.ent_coef_max))


def floor(state: State, measured: Measurements, config: RegularizerConfig) -> State:
    """ent_coef x 1.5 after ent_patience updates in a row below ent_floor; then counts anew."""
    low = _count_low(state, measured, config.ent_floor)
    if low < config.ent_patience:
        return dataclasses.replace(state, low_updates=low)
    ent_coef = min(1.5 * state.coefs["ent_coef"], config.ent_coef_max)
    return dataclasses.replace(state.moved(ent_coef=ent_coef), low_updates=0)


def recovery(state: State, measured: Measurements, config: RegularizerConfig) -> State:
    """Post-mortem 2's remedy after ent_patience updates in a row below ent_alert; then counts anew.

    ent_coef x 1.5 (at most ent_coef_max), all KL coefficients x 0.5 (towards 0), temperature +
    temperature_step (at most temperature_max).
    """
    low = _count_low(state, measured, config.ent_alert)
    if low < config.ent_patience:
        return dataclasses.replace(state, low_updates=low)
    coefs = {name: 0.5 * coef for name, coef in state.coefs.items() if name.startswith("kl_")}
    coefs["ent_coef"] = min(1.5 * state.coefs["ent_coef"], config.ent_coef_max)
    return dataclasses.replace(
        state.moved(**coefs),
        temperature=min(state.temperature + config.temperature_step, config.temperature_max),
        low_updates=0,
    )


def adaptive(state: State, measured: Measurements, config: RegularizerConfig) -> State:
    """The held weight + ent_coef_step (at most ent_coef_max) where H <= ent_floor, else - ent_coef_step (at least 0).

    It is in force where H <= ent_floor; above, ent_coef is 0 and the weight is only held. Skywork-OR1
    (arXiv:2505.22312), read in TRL's `grpo_trainer.py` and in the authors' `EntController`, which has
    H < target. TRL steps .005 at each optimizer step on advantages of unit standard deviation, up to 1; the
    authors' scripts .0001 up to .005. Here it is one step for each rollout, whose entropy is measured before
    the first optimizer step on it.
    """
    low = _finite("entropy", measured.entropy) <= config.ent_floor
    held = state.coefs["ent_coef"] if state.ent_coef_held is None else state.ent_coef_held
    step = config.ent_coef_step
    held = min(held + step, config.ent_coef_max) if low else max(held - step, 0.0)
    return dataclasses.replace(state.moved(ent_coef=held if low else 0.0), ent_coef_held=held)


ENTROPY: dict[str, Callable[[State, Measurements, RegularizerConfig], State]] = {
    "none": schedule,
    "target": target,
    "floor": floor,
    "recovery": recovery,
    "adaptive": adaptive,
}
"""Entropy controllers by name."""


def ziegler(coef: float, kl: float, config: RegularizerConfig) -> float:
    """The coefficient times 1 + e / kl_horizon, e = clip(kl / kl_target - 1, -0.2, 0.2).

    Ziegler et al. (arXiv:1909.08593). Deviation: verl and OpenRLHF have 1 + e n / horizon with n
    episodes per update and horizon 10,000; ours counts the horizon in updates, so that the pace does not
    change with the size of a rollout.
    """
    error = max(-0.2, min(0.2, kl / config.kl_target - 1.0))
    return coef * (1.0 + error / config.kl_horizon)


def doubling(coef: float, kl: float, config: RegularizerConfig) -> float:
    """Twice the coefficient above 1.5 kl_target, half below kl_target / 1.5. arXiv:1707.06347, 4."""
    if kl > 1.5 * config.kl_target:
        return 2.0 * coef
    return 0.5 * coef if kl < config.kl_target / 1.5 else coef


def post_mortem(coef: float, kl: float, config: RegularizerConfig) -> float:
    """The coefficient x 1.2 above kl_target, / 1.2 otherwise, at every update: it never rests."""
    return 1.2 * coef if kl > config.kl_target else coef / 1.2


KL: dict[str, Callable[[float, float, RegularizerConfig], float]] = {
    "ziegler": ziegler,
    "doubling": doubling,
    "post_mortem": post_mortem,
}
"""Adaptive KL coefficients by name."""


def adapt_kl(state: State, measured: Measurements, config: RegularizerConfig) -> State:
    """The state with the one KL coefficient that is on moved by `kl_controller`, within bounds."""
    if config.kl_controller == "none":
        return state
    kl, name = controlled_kl(measured, config), controlled_coef(config)
    moved = KL[config.kl_controller](state.coefs[name], kl, config)
    return state.moved(**{name: _within(moved, config.kl_coef_max)})


def controlled_coef(config: RegularizerConfig) -> str:
    """Name of the one KL coefficient that is on, which `kl_controller` moves."""
    return "kl_old_coef" if config.kl_old_coef > 0 else "kl_ref_coef"


def controlled_kl(measured: Measurements, config: RegularizerConfig) -> float:
    """The KL that `kl_controller` steers, nats.

    Raises:
        ValueError: it was not measured, or is not finite.
    """
    if config.kl_old_coef > 0:
        return _finite("kl_old", measured.kl_old)
    if measured.kl_ref is None:
        raise ValueError(
            "kl_ref is None: kl_controller steers the KL to the reference; measure it on the "
            "rollout (RolloutBatch.with_reference) and pass it in the Measurements"
        )
    return _finite("kl_ref", measured.kl_ref)


def signed_doubling(coef: float, entropy: float, held: float, config: RegularizerConfig) -> float:
    """REPO-R's zeta: twice its size where its sign is the one that is wanted, half where it is not.

    Above 0 it raises entropy, so that is wanted where entropy < held, and below 0 where it is higher. Halved
    below repo_r_coef_min its sign turns and its size is repo_r_coef_min; its size is at most repo_r_coef_max.
    arXiv:2603.11682, appendix D.2; halving, doubling, the turn at the lower end and the sizes were read in SkyRL's
    example `repo_r` (its README and script), the initial entropy as the target in public notes on the paper.
    """
    if entropy == held:
        return coef
    wanted = 1.0 if entropy < held else -1.0
    if coef * wanted > 0:
        return wanted * min(2.0 * abs(coef), config.repo_r_coef_max)
    return (
        0.5 * coef if 0.5 * abs(coef) >= config.repo_r_coef_min else wanted * config.repo_r_coef_min
    )


def adapt_repo_r(state: State, measured: Measurements, config: RegularizerConfig) -> State:
    """The state with repo_r_coef moved by `repo_r_controller`, within bounds."""
    if config.repo_r_controller == "none":
        return state
    entropy, held = _finite("entropy", measured.entropy), held_entropy(state, config)
    moved = signed_doubling(state.coefs["repo_r_coef"], entropy, held, config)
    return state.moved(repo_r_coef=moved)


def adapo(controls: Controls, entropy: float, held: float, config: RegularizerConfig) -> Controls:
    """The upper clip distance x (1 + clip_step) where entropy < held, / (1 + clip_step) where above, within bounds.

    ADAPO (arXiv:2603.11682, *Entropy-Preserving Reinforcement Learning*): a wider upper bound lets unlikely
    moves rise further. Second-hand: a public note on the paper has the direction and the initial entropy as the
    target; size of the step and bounds could not be read and are this project's.
    """
    if entropy == held:
        return controls
    factor = 1 + config.clip_step
    moved = controls.clip_high * factor if entropy < held else controls.clip_high / factor
    bounded = min(max(moved, config.clip_high_min), config.clip_high_max)
    return dataclasses.replace(controls, clip_high=bounded)


def adapt_clip(
    state: State, measured: Measurements, controls: Controls, config: RegularizerConfig
) -> tuple[State, Controls]:
    """State and controls after `clip_controller`."""
    if config.clip_controller == "none":
        return state, controls
    entropy = _finite("entropy", measured.entropy)
    moved = adapo(controls, entropy, held_entropy(state, config), config)
    return dataclasses.replace(state, clip_high=moved.clip_high), moved


def check_clip(controls: Controls, config: RegularizerConfig) -> None:
    """Raises ValueError where `clip_controller` is on and the upper clip distance is not one that it may set."""
    require(
        config.clip_controller == "none"
        or config.clip_high_min <= controls.clip_high <= config.clip_high_max,
        f'clip_controller is "{config.clip_controller}" and the algorithm\'s upper clip distance '
        f"{controls.clip_high}: it is moved within [clip_high_min, clip_high_max] = "
        f"[{config.clip_high_min}, {config.clip_high_max}]; start it there "
        "(algorithm.clip_range_high), or leave clip_controller out where the algorithm has no clip",
    )


def remember_first(state: State, measured: Measurements, config: RegularizerConfig) -> State:
    """The state with the entropy of the first rollout, where a controller has to hold it."""
    if state.ent_first is not None or config.ent_hold is not None:
        return state
    if config.clip_controller == config.repo_r_controller == "none":
        return state
    return dataclasses.replace(state, ent_first=_finite("entropy", measured.entropy))


def held_entropy(state: State, config: RegularizerConfig) -> float:
    """The entropy that `clip_controller` and `repo_r_controller` hold, nats."""
    held = state.ent_first if config.ent_hold is None else config.ent_hold
    assert held is not None  # `remember_first` comes before the controllers
    return held


def stop_reason(measured: Measurements, config: RegularizerConfig) -> str | None:
    """Why the run must end, or None; only `recovery` ends one."""
    if config.ent_controller != "recovery" or measured.entropy >= config.ent_stop:
        return None
    return f"entropy {measured.entropy:.3f} below ent_stop {config.ent_stop}"


def _count_low(state: State, measured: Measurements, threshold: float) -> int:
    return state.low_updates + 1 if _finite("entropy", measured.entropy) < threshold else 0


def _within(coef: float, highest: float) -> float:
    """The coefficient inside [COEF_MIN, highest]; `at_bounds` tells when this acted."""
    return max(COEF_MIN, min(coef, highest))


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(
            f"{name} is {value}: a controller cannot follow it; look for NaN in the policy's logits"
        )
    return value


def at_bounds(state: State, config: RegularizerConfig) -> dict[str, str]:
    """Key -> warning for everything that a controller moves and that lies at its bound now."""
    found: dict[str, str] = {}
    if config.ent_controller != "none" and state.coefs["ent_coef"] >= config.ent_coef_max:
        found["ent_coef_high"] = (
            f"ent_coef is at ent_coef_max {config.ent_coef_max}: its controller "
            f'"{config.ent_controller}" can raise entropy no further'
        )
    if config.ent_controller == "target" and state.coefs["ent_coef"] <= COEF_MIN:
        found["ent_coef_low"] = (
            f"ent_coef is at its lower bound {COEF_MIN:g}: entropy stays above ent_target "
            f"{config.ent_target} without a bonus"
        )
    if config.ent_controller == "recovery" and state.temperature >= config.temperature_max:
        found["temperature_high"] = (
            f"the temperature is at temperature_max {config.temperature_max}: recovery can raise "
            "it no further"
        )
    if config.repo_r_controller != "none":
        zeta = state.coefs["repo_r_coef"]
        if abs(zeta) >= config.repo_r_coef_max:
            found["repo_r_coef_high"] = (
                f"repo_r_coef is {zeta}, as large as repo_r_coef_max {config.repo_r_coef_max}: "
                f'repo_r_controller "{config.repo_r_controller}" can move entropy no faster'
            )
    if state.clip_high is not None and state.clip_high >= config.clip_high_max:
        found["clip_high_high"] = (
            f"the upper clip distance is at clip_high_max {config.clip_high_max}: clip_controller "
            f'"{config.clip_controller}" can raise entropy no further'
        )
    if state.clip_high is not None and state.clip_high <= config.clip_high_min:
        found["clip_high_low"] = (
            f"the upper clip distance is at clip_high_min {config.clip_high_min}: clip_controller "
            f'"{config.clip_controller}" can lower entropy no further'
        )
    if config.kl_controller != "none":
        name = controlled_coef(config)
        coef = state.coefs[name]
        if coef >= config.kl_coef_max:
            found[f"{name}_high"] = (
                f"{name} is at kl_coef_max {config.kl_coef_max}: the KL stays above kl_target "
                f"{config.kl_target} at any weight allowed (do sampler and learner agree?)"
            )
        elif coef <= COEF_MIN:
            found[f"{name}_low"] = (
                f"{name} is at its lower bound {COEF_MIN:g}: the KL stays below kl_target "
                f"{config.kl_target} without a penalty"
            )
    return found


def first_measurements(measured: Measurements, config: RegularizerConfig) -> dict[str, str]:
    """Key -> warning for each controller whose very first measurement is already past its threshold."""
    found: dict[str, str] = {}
    value, name, threshold = {
        "none": (0.0, "", 0.0),
        "target": (measured.entropy_normalized, "ent_target", config.ent_target),
        "floor": (measured.entropy, "ent_floor", config.ent_floor),
        "recovery": (measured.entropy, "ent_alert", config.ent_alert),
        "adaptive": (measured.entropy, "ent_floor", config.ent_floor),
    }[config.ent_controller]
    if value < threshold:
        found["ent_first"] = (
            f'ent_controller "{config.ent_controller}" starts out of range: the entropy is '
            f"{value:.3f} before any learning, below {name} {threshold}"
        )
    if config.kl_controller != "none":
        kl = controlled_kl(measured, config)
        if kl > config.kl_target:
            found["kl_first"] = (
                f'kl_controller "{config.kl_controller}" starts out of range: the KL is {kl:.4g} '
                f"before any learning, above kl_target {config.kl_target}; it will drive the "
                "coefficient to its bound (do sampler and learner agree?)"
            )
    return found
