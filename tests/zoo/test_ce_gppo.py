"""CE-GPPO against its formula in plain Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.ce_gppo import CEGPPO
from tests.zoo.by_formula import off_policy, one_sample


def formula(low: float, high: float, beta_low: float, beta_high: float) -> Any:
    def surrogate(logprob: float, old_logprob: float, advantage: float) -> tuple[float, float]:
        weight = math.exp(logprob - old_logprob)
        if advantage < 0 and weight < 1 - low:
            weight = beta_low * (1 - low)
        elif advantage > 0 and weight > 1 + high:
            weight = beta_high * (1 + high)
        return -weight * advantage, -weight * advantage

    return surrogate


@given(
    seed=st.integers(0, 2**31),
    low=st.sampled_from([0.1, 0.2]),
    high=st.sampled_from([0.2, 0.4, math.inf]),
    beta_low=st.sampled_from([0.0, 0.25, 0.75, 1.0]),
    beta_high=st.sampled_from([0.0, 0.5, 1.0]),
    form=st.sampled_from(["positions", "games"]),
)
@settings(max_examples=25)
def test_loss_and_gradient_are_those_of_the_formula(
    seed: int, low: float, high: float, beta_low: float, beta_high: float, form: str
) -> None:
    algorithm = CEGPPO(clip_range=low, clip_range_high=high, beta_low=beta_low, beta_high=beta_high)
    off_policy(algorithm, form, seed=seed).agrees(
        algorithm, formula(low, high, beta_low, beta_high)
    )


@pytest.mark.parametrize(
    ("ratio", "advantage", "weight"),
    [
        (1.0, 2.0, 1.0),
        (1.1, 2.0, 1.1),
        (1.5, 2.0, 1.2),  # 1 x 1.2
        (9.0, 2.0, 1.2),  # however far
        (0.5, 2.0, 0.5),
        (0.9, -2.0, 0.9),
        (0.5, -2.0, 0.6),  # .75 x .8
        (0.01, -2.0, 0.6),
        (1.5, -2.0, 1.5),
    ],
)
def test_hand_computed_losses_and_gradients(ratio: float, advantage: float, weight: float) -> None:
    expected = pytest.approx(-weight * advantage)
    assert one_sample(CEGPPO(), ratio, advantage) == (expected, expected)
