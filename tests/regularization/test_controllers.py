from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core.algorithm import Controls
from algorithms.regularization import Measurements, Regularizer, RegularizerConfig, Signals
from algorithms.regularization.controllers import COEF_MIN

CALM = Measurements(
    progress=0.0, update=0, entropy=3.0, entropy_normalized=0.9, kl_old=0.0, kl_ref=0.0
)
RECOVERY: dict[str, Any] = {"ent_controller": "recovery", "ent_coef": 0.1, "ent_patience": 3}
ADAPTIVE: dict[str, Any] = {"kl_ref_coef": 0.1, "kl_target": 0.02}


def build(**settings_: Any) -> Regularizer:
    return Regularizer(RegularizerConfig(**settings_), 1.0)


def feed(reg: Regularizer, count: int = 1, **changes: Any) -> Signals:
    """The signals of the last of `count` updates with a calm reading except for the changes."""
    for _ in range(count):
        signals = reg.update(dataclasses.replace(CALM, **changes), Controls())
    return signals


def test_nothing_moves_without_a_controller() -> None:
    reg = build(ent_coef=0.1, kl_old_coef=0.2, kl_ref_coef=0.3)
    signals = feed(reg, 5, entropy=0.0, kl_old=9.0, kl_ref=None, progress=0.5)
    assert signals == Signals(temperature=1.0, controls=Controls())
    said = {name: value for name, value in reg.metrics().items() if value}
    assert said == {"reg/ent_coef": 0.1, "reg/kl_old_coef": 0.2, "reg/kl_ref_coef": 0.3}


def test_the_schedule_moves_the_entropy_weight_linearly_with_progress() -> None:
    reg = build(ent_coef=0.2, ent_coef_final=0.1)
    for progress in (0.0, 0.25, 0.5, 1.0):
        feed(reg, progress=progress)
        assert reg.metrics()["reg/ent_coef"] == 0.2 + (0.1 - 0.2) * progress


def test_the_target_controller_raises_the_weight_below_the_target_and_lowers_it_above() -> None:
    reg = build(ent_controller="target", ent_coef=0.1, ent_target=0.6, ent_lr=0.5)
    feed(reg, entropy_normalized=0.8)
    assert reg.state.coefs["ent_coef"] == pytest.approx(0.1 * math.exp(-0.1))
    feed(reg, 2, entropy_normalized=0.4)
    assert reg.state.coefs["ent_coef"] == pytest.approx(0.1 * math.exp(0.1))


def test_the_floor_waits_for_its_patience_and_starts_counting_anew() -> None:
    reg = build(ent_controller="floor", ent_coef=0.1, ent_floor=2.0, ent_patience=3)
    feed(reg, 2, entropy=1.9)
    feed(reg, entropy=2.0)  # not below: the count starts again
    feed(reg, 2, entropy=1.0)
    assert reg.state.coefs["ent_coef"] == 0.1
    feed(reg, entropy=1.0)
    assert reg.state.coefs["ent_coef"] == pytest.approx(0.15)
    feed(reg, 2, entropy=1.0)
    assert reg.state.coefs["ent_coef"] == pytest.approx(0.15)
    feed(reg, entropy=1.0)
    assert reg.state.coefs["ent_coef"] == pytest.approx(0.225)
    assert feed(reg, 60, entropy=0.01).stop is None
    assert reg.state.coefs["ent_coef"] == 1.5


def test_recovery_boosts_entropy_relaxes_kl_and_heats_the_rollout() -> None:
    reg = build(**RECOVERY, kl_old_coef=0.2, kl_ref_coef=0.4)
    assert feed(reg, 2, entropy=1.4).temperature == 1.0
    signals = feed(reg, entropy=1.4)
    assert signals.temperature == pytest.approx(1.2)
    assert reg.state.coefs["ent_coef"] == pytest.approx(0.15)
    assert (reg.state.coefs["kl_old_coef"], reg.state.coefs["kl_ref_coef"]) == (0.1, 0.2)
    assert feed(reg, 2, entropy=1.4).temperature == pytest.approx(1.2)
    assert feed(reg, entropy=1.4).temperature == pytest.approx(1.4)
    signals = feed(reg, 60, entropy=1.4)
    assert signals.temperature == 2.5
    assert reg.state.coefs["ent_coef"] == 1.5


def test_recovery_ends_a_run_whose_entropy_is_gone() -> None:
    reg = build(**RECOVERY)
    assert feed(reg, entropy=0.5).stop is None
    stop = feed(reg, entropy=0.49).stop
    assert stop is not None
    assert "entropy 0.490 below ent_stop 0.5" in stop
    assert feed(build(ent_coef=0.1), entropy=0.01).stop is None


def test_the_ziegler_controller_moves_in_proportion_within_its_clip() -> None:
    for kl, error in ((0.022, 0.1), (0.018, -0.1), (1.0, 0.2), (0.0, -0.2)):
        reg = build(**ADAPTIVE, kl_controller="ziegler", kl_horizon=4.0)
        feed(reg, kl_ref=kl)
        assert reg.state.coefs["kl_ref_coef"] == pytest.approx(0.1 * (1 + error / 4))


def test_the_doubling_controller_rests_inside_its_band() -> None:
    for kl, factor in ((0.031, 2.0), (0.029, 1.0), (0.014, 1.0), (0.013, 0.5)):
        reg = build(**ADAPTIVE, kl_controller="doubling", kl_coef_max=1.0)
        feed(reg, kl_ref=kl)
        assert reg.state.coefs["kl_ref_coef"] == pytest.approx(0.1 * factor)


def test_the_post_mortems_controller_reaches_its_cap_in_13_updates_and_never_rests() -> None:
    settings_: dict[str, Any] = {"kl_old_coef": 0.01, "kl_target": 0.012, "kl_coef_max": 0.1}
    reg = build(**settings_, kl_controller="post_mortem")
    feed(reg, 12, kl_old=0.043)
    assert reg.state.coefs["kl_old_coef"] < 0.1
    assert reg.metrics()["reg/controller_saturated"] == 0
    feed(reg, kl_old=0.043)
    assert reg.state.coefs["kl_old_coef"] == 0.1
    assert reg.metrics()["reg/controller_saturated"] == 1
    feed(reg, kl_old=0.012)
    assert reg.state.coefs["kl_old_coef"] == pytest.approx(0.1 / 1.2)
    assert reg.metrics()["reg/controller_saturated"] == 0


def test_only_the_coefficient_that_is_on_is_moved_by_its_own_kl() -> None:
    reg = build(kl_old_coef=0.1, kl_target=0.02, kl_controller="doubling", kl_coef_max=1.0)
    feed(reg, kl_old=1.0, kl_ref=None)
    assert (reg.state.coefs["kl_old_coef"], reg.state.coefs["kl_ref_coef"]) == (0.2, 0.0)
    reg = build(**ADAPTIVE, kl_controller="doubling", kl_coef_max=1.0)
    feed(reg, kl_old=1.0, kl_ref=0.0)
    assert (reg.state.coefs["kl_old_coef"], reg.state.coefs["kl_ref_coef"]) == (0.0, 0.05)
    with pytest.raises(ValueError, match="kl_ref is None.*with_reference"):
        feed(reg, kl_ref=None)


@pytest.mark.parametrize(
    ("settings_", "bad"),
    [
        (ADAPTIVE | {"kl_controller": "doubling"}, {"kl_ref": math.nan}),
        (RECOVERY, {"entropy": math.nan}),
        (RECOVERY | {"ent_controller": "target"}, {"entropy_normalized": math.nan}),
        (RECOVERY | {"ent_controller": "adaptive"}, {"entropy": math.nan}),
    ],
)
def test_a_reading_that_is_not_finite_is_refused(
    settings_: dict[str, Any], bad: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(bad))} is nan"):
        feed(build(**settings_), **bad)


@pytest.mark.parametrize(
    ("settings_", "reading", "message"),
    [
        (
            ADAPTIVE | {"kl_controller": "ziegler"},
            {"kl_ref": 0.07},
            r"starts out of range: the KL is 0\.07",
        ),
        (RECOVERY, {"entropy": 1.2}, r"starts out of range: the entropy is 1\.200.*ent_alert 1\.5"),
        (
            RECOVERY | {"ent_controller": "target", "ent_target": 0.95},
            {},
            r"entropy is 0\.900.*ent_target 0\.95",
        ),
    ],
)
def test_a_controller_that_starts_out_of_range_says_so_once(
    settings_: dict[str, Any], reading: dict[str, Any], message: str
) -> None:
    reg = build(**settings_)
    (warning,) = feed(reg, **reading).warnings
    assert re.search(message, warning)
    assert feed(reg, **reading).warnings == ()
    late = build(**settings_)
    assert feed(late, kl_ref=0.0, entropy_normalized=1.0).warnings == ()
    assert feed(late, **reading).warnings == ()


def test_a_controller_at_its_bound_says_so_once_and_shows_it_while_it_lasts() -> None:
    reg = build(**ADAPTIVE, kl_controller="doubling", kl_coef_max=0.15)
    feed(reg, kl_ref=0.02)
    (warning,) = feed(reg, kl_ref=0.1).warnings
    assert "kl_ref_coef is at kl_coef_max 0.15" in warning
    assert reg.state.coefs["kl_ref_coef"] == 0.15
    assert reg.metrics()["reg/controller_saturated"] == 1
    assert feed(reg, kl_ref=0.1).warnings == ()
    feed(reg, kl_ref=0.0)
    assert reg.metrics()["reg/controller_saturated"] == 0
    assert feed(reg, 2, kl_ref=0.1).warnings == ()
    for _ in range(20):
        signals = feed(reg, kl_ref=0.0)
        if signals.warnings:
            break
    assert "lower bound 1e-06" in signals.warnings[0]
    assert reg.state.coefs["kl_ref_coef"] == COEF_MIN


def test_every_bound_of_the_entropy_controllers_has_its_own_warning() -> None:
    target = build(ent_controller="target", ent_coef=1.0, ent_lr=10.0)
    assert "ent_coef_max 1.5" in feed(target, entropy_normalized=0.0).warnings[1]
    assert "lower bound 1e-06" in feed(target, 3, entropy_normalized=1.0).warnings[0]
    recovery = build(**RECOVERY | {"ent_patience": 1}, temperature_step=2.0)
    assert "temperature_max 2.5" in feed(recovery, entropy=1.0).warnings[1]


def test_the_reference_is_refreshed_at_its_interval_but_not_at_the_start() -> None:
    reg = build(kl_ref_coef=0.1, ref_refresh_interval=3)
    refreshed = [feed(reg, update=update).refresh_reference for update in range(8)]
    assert refreshed == [False, False, False, True, False, False, True, False]
    assert not feed(build(kl_ref_coef=0.1), update=3).refresh_reference


READINGS = st.builds(
    Measurements,
    progress=st.floats(0, 1),
    update=st.integers(0, 20),
    entropy=st.floats(0, 3),
    entropy_normalized=st.floats(0, 1),
    kl_old=st.floats(0, 1),
    kl_ref=st.floats(0, 1),
)
CONFIGS = (
    RegularizerConfig(ent_coef=0.1, ent_coef_final=0.01),
    RegularizerConfig(**RECOVERY, **ADAPTIVE, kl_controller="ziegler", ref_refresh_interval=4),
    RegularizerConfig(**RECOVERY | {"ent_controller": "floor"}, kl_ref_coef=0.3),
    RegularizerConfig(
        ent_controller="target", ent_coef=0.1, ent_lr=2.0, kl_old_coef=0.1, kl_controller="doubling"
    ),
    RegularizerConfig(kl_old_coef=0.1, kl_controller="post_mortem"),
    RegularizerConfig(ent_coef=0.003, ent_controller="adaptive", ent_coef_max=0.005),
    RegularizerConfig(repo_r_coef=0.001, repo_r_controller="doubling", ent_hold=1.5),
    RegularizerConfig(repo_r_coef=0.001, repo_r_controller="doubling"),
)


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
@settings(max_examples=20)
@given(readings=st.lists(READINGS, min_size=2, max_size=25), data=st.data())
def test_an_interrupted_run_goes_on_exactly_like_an_uninterrupted_one(
    config: RegularizerConfig, readings: list[Measurements], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(readings)))
    whole = Regularizer(config, 1.3)
    expected = [whole.update(reading, Controls()) for reading in readings]
    first = Regularizer(config, 1.3)
    signals = [first.update(reading, Controls()) for reading in readings[:cut]]
    second = Regularizer(config, 1.3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    signals += [second.update(reading, Controls()) for reading in readings[cut:]]
    assert signals == expected
    assert second.state_dict() == whole.state_dict()
    assert second.metrics() == whole.metrics()
    said = [text for signal in expected for text in signal.warnings]
    assert len(said) == len(set(said))
    assert 0 <= whole.state.coefs["ent_coef"] <= config.ent_coef_max
    assert whole.state.temperature <= config.temperature_max
