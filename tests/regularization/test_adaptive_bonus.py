"""The bonus of Skywork-OR1: one that comes and goes with the entropy, against a plain replay of its rule."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core.algorithm import Controls
from algorithms.regularization import Measurements, Regularizer, RegularizerConfig
from tests.regularization.penalty import penalty_of
from tests.regularization.regularizer_cases import TEMPERATURE, policy, random_case


def build(**changes: Any) -> Regularizer:
    given_: dict[str, Any] = {"ent_controller": "adaptive", "ent_coef": 0.01, "ent_floor": 1.5}
    return Regularizer(RegularizerConfig(**{**given_, **changes}), TEMPERATURE)


def weights(regularizer: Regularizer, entropies: list[float]) -> list[tuple[float, float]]:
    """(the weight in force, the one that is held) after each measured entropy."""
    seen = Measurements(0.0, 0, 2.0, 0.5, 0.0, None)
    found = []
    for entropy in entropies:
        regularizer.update(dataclasses.replace(seen, entropy=entropy), Controls())
        logged = regularizer.metrics()
        found.append((logged["reg/ent_coef"], logged["reg/ent_coef_held"]))
    return found


def test_the_weight_rises_and_acts_at_and_below_the_target_and_falls_unused_above_it() -> None:
    found = weights(build(ent_coef_step=0.004), [1.4, 1.5, 1.6, 1.6, 1.6, 1.6, 1.6, 1.0])
    in_force = [0.014, 0.018, 0, 0, 0, 0, 0, 0.004]
    held = [0.014, 0.018, 0.014, 0.010, 0.006, 0.002, 0, 0.004]
    assert [weight for weight, _ in found] == pytest.approx(in_force)
    assert [weight for _, weight in found] == pytest.approx(held)


@settings(max_examples=50)
@given(
    entropies=st.lists(st.floats(0, 5), min_size=1, max_size=40),
    start=st.floats(1e-6, 0.05),
    step=st.floats(1e-5, 0.02),
    target=st.floats(0, 5),
)
def test_any_run_of_it_equals_a_replay_of_the_rule(
    entropies: list[float], start: float, step: float, target: float
) -> None:
    settings_ = {"ent_coef": start, "ent_coef_step": step, "ent_floor": target}
    found = weights(build(**settings_, ent_coef_max=0.05), entropies)
    weight = start
    for entropy, (in_force, held) in zip(entropies, found, strict=True):
        if entropy <= target:
            weight = 0.05 if weight + step > 0.05 else weight + step
            assert in_force == held == weight
        else:
            weight = 0.0 if weight - step < 0 else weight - step
            assert (in_force, held) == (0.0, weight)


def test_while_it_is_off_the_loss_is_that_of_no_bonus_and_while_on_that_of_a_fixed_one() -> None:
    logits, batch, advantages = random_case()
    adaptive = build(ent_coef_step=0.004)
    for entropy, fixed in ((2.0, 0.0), (1.0, 0.01)):
        weights(adaptive, [entropy])
        twin = Regularizer(RegularizerConfig(ent_coef=fixed), TEMPERATURE)
        losses = []
        for each in (adaptive, twin):
            loss, parts = penalty_of(each, policy(logits, batch), batch, advantages)
            losses.append(loss)
            assert torch.equal(parts["reg/entropy"], policy(logits, batch).entropy())
        assert torch.equal(losses[0], losses[1])
        assert losses[0].requires_grad == (fixed > 0)


def test_a_checkpoint_written_while_it_is_off_remembers_the_weight() -> None:
    first, second = build(ent_coef_step=0.004), build(ent_coef_step=0.004)
    weights(first, [1.0, 2.0])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.metrics() == first.metrics()
    assert weights(second, [1.0]) == weights(first, [1.0]) == [pytest.approx((0.014, 0.014))]


def test_it_says_once_that_it_starts_below_the_target_and_that_it_is_at_its_bound() -> None:
    regularizer = build(ent_coef_step=0.1, ent_coef_max=0.15)
    reading = Measurements(0.0, 0, 1.0, 0.5, 0.0, None)
    assert "below ent_floor 1.5" in regularizer.update(reading, Controls()).warnings[0]
    assert "ent_coef_max 0.15" in regularizer.update(reading, Controls()).warnings[0]
    assert regularizer.metrics()["reg/controller_saturated"] == 1
    assert regularizer.update(reading, Controls()).warnings == ()
    assert "reg/ent_coef_held" not in Regularizer(RegularizerConfig(), 1.0).metrics()
