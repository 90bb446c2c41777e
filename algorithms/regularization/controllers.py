"""Controllers of the coefficients: pure functions of (state, measurements, config); and their warnings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from algorithms.core.algorithm import Controls
from algorithms.regularization.config import COEF_MIN, RegularizerConfig


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
        coefs: current weights by name, of the terms whose weight may move: `ent_coef`, `kl_old_coef`, ...
        temperature: of the next rollouts.
        low_updates: updates in a row whose entropy was below the threshold.
        started: measurements have been seen.
        said: keys of the warnings that were given.
    """

    coefs: Mapping[str, float]
    temperature: float
    low_updates: int = 0
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
        """The state that `to_dict` wrote, of a regulariser with these same weights."""
        rest = {name: value for name, value in values.items() if name not in self.coefs}
        coefs = {name: values[name] for name in self.coefs}
        return State(coefs, **{**rest, "said": tuple(rest["said"])})


def schedule(state: State, measured: Measurements, config: RegularizerConfig) -> State:
    """`ent_coef` on the straight line to `ent_coef_final`; untouched where that is None."""
    if config.ent_coef_final is None:
        return state
    start, end = config.ent_coef, config.ent_coef_final
    return state.moved(ent_coef=start + (end - start) * measured.progress)


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
    coefs = {name: 0.5 * coef for name, coef in state.coefs.items() if name != "ent_coef"}
    coefs["ent_coef"] = min(1.5 * state.coefs["ent_coef"], config.ent_coef_max)
    return dataclasses.replace(
        state.moved(**coefs),
        temperature=min(state.temperature + config.temperature_step, config.temperature_max),
        low_updates=0,
    )


ENTROPY: dict[str, Callable[[State, Measurements, RegularizerConfig], State]] = {
    "none": schedule,
    "target": target,
    "floor": floor,
    "recovery": recovery,
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
    "none": lambda coef, kl, config: coef,
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
