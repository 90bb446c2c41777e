"""ASPO against its formula in plain Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.aspo import ASPO
from tests.zoo.by_formula import off_policy, one_sample


def formula(low: float, high: float, dual_clip: float | None) -> Any:
    def surrogate(logprob: float, old_logprob: float, advantage: float) -> tuple[float, float]:
        ratio = math.exp(logprob - old_logprob)
        if advantage > 0:
            weight = 0.0 if ratio > 1 + high else 1 / ratio
        else:
            weight = 0.0 if ratio < 1 - low else ratio
        weight = weight if dual_clip is None else min(weight, dual_clip)
        return -weight * advantage * logprob, -weight * advantage

    return surrogate


@given(
    seed=st.integers(0, 2**31),
    low=st.sampled_from([0.1, 0.2]),
    high=st.sampled_from([0.2, 0.4]),
    dual_clip=st.sampled_from([None, 1.5, 3.0]),
    form=st.sampled_from(["positions", "games"]),
)
@settings(max_examples=25)
def test_loss_and_gradient_are_those_of_the_formula(
    seed: int, low: float, high: float, dual_clip: float | None, form: str
) -> None:
    algorithm = ASPO(clip_range=low, clip_range_high=high, dual_clip=dual_clip)
    off_policy(algorithm, form, seed=seed).agrees(algorithm, formula(low, high, dual_clip))


@pytest.mark.parametrize(
    ("ratio", "advantage", "weight"),
    [
        (1.0, 2.0, 1.0),
        (0.5, 2.0, 2.0),  # a good move that has fallen is raised twice as much, not half
        (1.25, 2.0, 0.0),
        (1.1, 2.0, 1 / 1.1),
        (0.1, 2.0, 3.0),  # 10, but for the dual clip
        (1.5, -2.0, 1.5),
        (0.9, -2.0, 0.9),
        (0.5, -2.0, 0.0),
        (9.0, -2.0, 3.0),  # PPO: 9; dual-clip PPO: 0
    ],
)
def test_hand_computed_losses_and_gradients(ratio: float, advantage: float, weight: float) -> None:
    loss, gradient = one_sample(ASPO(), ratio, advantage, prob=0.2)
    assert gradient == pytest.approx(-weight * advantage)
    assert loss == pytest.approx(-weight * advantage * math.log(0.2))
