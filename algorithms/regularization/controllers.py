"""What moves the coefficients during a run: pure functions of (state, reading, config)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from algorithms.core.algorithm import Controls
from algorithms.regularization.config import COEF_MIN, RegularizerConfig


@dataclasses.dataclass(frozen=True)
class Measurements:
    """What a controller sees, measured on the fresh rollout before the optimizer steps.

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
    """What the loop has to do now.

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
    """All that changes during a run.

    Attributes:
        ent_coef: current weight of the entropy bonus.
        kl_old_coef: current weight of the KL to the behaviour policy.
        kl_ref_coef: current weight of the KL to the reference.
        temperature: of the next rollouts.
        low_updates: updates in a row whose entropy was below the threshold.
        started: a reading has been seen.
        said: keys of the warnings that were given.
    """

    ent_coef: float
    kl_old_coef: float
    kl_ref_coef: float
    temperature: float
    low_updates: int = 0
    started: bool = False
    said: tuple[str, ...] = ()


def schedule(state: State, reading: Measurements, config: RegularizerConfig) -> State:
    """`ent_coef` on the straight line to `ent_coef_final`; untouched where that is None."""
    if config.ent_coef_final is None:
        return state
    start, end = config.ent_coef, config.ent_coef_final
    return dataclasses.replace(state, ent_coef=start + (end - start) * reading.progress)


def target(state: State, reading: Measurements, config: RegularizerConfig) -> State:
    """ln(ent_coef) moved by ent_lr (ent_target - normalised entropy), within the bounds.

    SAC's automatic temperature (arXiv:1812.05905) as an integral controller on the measured
    entropy, not a gradient step on a loss; normalised, as positions differ in their legal moves.
    """
    gap = config.ent_target - _finite("entropy_normalized", reading.entropy_normalized)
    moved = state.ent_coef * math.exp(config.ent_lr * gap)
    return dataclasses.replace(state, ent_coef=_within(moved, config.ent_coef_max))


def floor(state: State, reading: Measurements, config: RegularizerConfig) -> State:
    """ent_coef x 1.5 after ent_patience updates in a row below ent_floor; then counts anew."""
    low = _count_low(state, reading, config.ent_floor)
    if low < config.ent_patience:
        return dataclasses.replace(state, low_updates=low)
    ent_coef = min(1.5 * state.ent_coef, config.ent_coef_max)
    return dataclasses.replace(state, ent_coef=ent_coef, low_updates=0)


def recovery(state: State, reading: Measurements, config: RegularizerConfig) -> State:
    """Post-mortem 2's remedy after ent_patience updates in a row below ent_alert; then counts anew.

    ent_coef x 1.5 (at most ent_coef_max), all KL coefficients x 0.5 (towards 0), temperature +
    temperature_step (at most temperature_max).
    """
    low = _count_low(state, reading, config.ent_alert)
    if low < config.ent_patience:
        return dataclasses.replace(state, low_updates=low)
    return dataclasses.replace(
        state,
        ent_coef=min(1.5 * state.ent_coef, config.ent_coef_max),
        kl_old_coef=0.5 * state.kl_old_coef,
        kl_ref_coef=0.5 * state.kl_ref_coef,
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


def adapt_kl(state: State, reading: Measurements, config: RegularizerConfig) -> State:
    """The state with the one KL coefficient that is on moved by `kl_controller`, within bounds."""
    if config.kl_controller == "none":
        return state
    move, kl = KL[config.kl_controller], controlled_kl(reading, config)
    if config.kl_old_coef > 0:
        moved = _within(move(state.kl_old_coef, kl, config), config.kl_coef_max)
        return dataclasses.replace(state, kl_old_coef=moved)
    moved = _within(move(state.kl_ref_coef, kl, config), config.kl_coef_max)
    return dataclasses.replace(state, kl_ref_coef=moved)


def controlled_kl(reading: Measurements, config: RegularizerConfig) -> float:
    """The KL that `kl_controller` steers, nats.

    Raises:
        ValueError: it was not measured, or is not finite.
    """
    if config.kl_old_coef > 0:
        return _finite("kl_old", reading.kl_old)
    if reading.kl_ref is None:
        raise ValueError(
            "kl_ref is None: kl_controller steers the KL to the reference; measure it on the "
            "rollout (RolloutBatch.with_reference) and pass it in the Reading"
        )
    return _finite("kl_ref", reading.kl_ref)


def stop_reason(reading: Measurements, config: RegularizerConfig) -> str | None:
    """Why the run must end, or None; only `recovery` ends one."""
    if config.ent_controller != "recovery" or reading.entropy >= config.ent_stop:
        return None
    return f"entropy {reading.entropy:.3f} below ent_stop {config.ent_stop}"


def _count_low(state: State, reading: Measurements, threshold: float) -> int:
    return state.low_updates + 1 if _finite("entropy", reading.entropy) < threshold else 0


def _within(coef: float, highest: float) -> float:
    """The coefficient inside [COEF_MIN, highest]; `alarms.at_bounds` tells when this acted."""
    return max(COEF_MIN, min(coef, highest))


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(
            f"{name} is {value}: a controller cannot follow it; look for NaN in the policy's logits"
        )
    return value
