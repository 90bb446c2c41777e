"""Warnings of controllers that have no room left, or had none from the start."""

from __future__ import annotations

from algorithms.regularization.config import COEF_MIN, RegularizerConfig
from algorithms.regularization.controllers import Measurements, State, controlled_kl


def at_bounds(state: State, config: RegularizerConfig) -> dict[str, str]:
    """Key -> warning for everything that a controller moves and that lies at its bound now."""
    found: dict[str, str] = {}
    if config.ent_controller != "none" and state.ent_coef >= config.ent_coef_max:
        found["ent_coef_high"] = (
            f"ent_coef is at ent_coef_max {config.ent_coef_max}: its controller "
            f'"{config.ent_controller}" can raise entropy no further'
        )
    if config.ent_controller == "target" and state.ent_coef <= COEF_MIN:
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
        name = "kl_old_coef" if config.kl_old_coef > 0 else "kl_ref_coef"
        coef = state.kl_old_coef if config.kl_old_coef > 0 else state.kl_ref_coef
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


def first_reading(reading: Measurements, config: RegularizerConfig) -> dict[str, str]:
    """Key -> warning for each controller whose very first reading is already past its threshold."""
    found: dict[str, str] = {}
    value, name, threshold = {
        "none": (0.0, "", 0.0),
        "target": (reading.entropy_normalized, "ent_target", config.ent_target),
        "floor": (reading.entropy, "ent_floor", config.ent_floor),
        "recovery": (reading.entropy, "ent_alert", config.ent_alert),
    }[config.ent_controller]
    if value < threshold:
        found["ent_first"] = (
            f'ent_controller "{config.ent_controller}" starts out of range: the entropy is '
            f"{value:.3f} before any learning, below {name} {threshold}"
        )
    if config.kl_controller != "none":
        kl = controlled_kl(reading, config)
        if kl > config.kl_target:
            found["kl_first"] = (
                f'kl_controller "{config.kl_controller}" starts out of range: the KL is {kl:.4g} '
                f"before any learning, above kl_target {config.kl_target}; it will drive the "
                "coefficient to its bound (do sampler and learner agree?)"
            )
    return found
