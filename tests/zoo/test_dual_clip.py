"""Dual-clip PPO against its formula in plain Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.grpo import GRPO
from algorithms.ppo import PPO
from tests.zoo.by_formula import off_policy, one_sample

LOW, HIGH = 0.2, 0.28


def formula(dual_clip: float) -> Any:
    def surrogate(logprob: float, old_logprob: float, advantage: float) -> tuple[float, float]:
        ratio = math.exp(logprob - old_logprob)
        if advantage >= 0:
            free = ratio <= 1 + HIGH
            return -min(ratio, 1 + HIGH) * advantage, -ratio * advantage * free
        bounded = min(max(ratio, 1 - LOW), dual_clip)
        return bounded * -advantage, bounded * -advantage * (bounded == ratio)

    return surrogate


@given(
    seed=st.integers(0, 2**31),
    dual_clip=st.sampled_from([1.05, 2.0, 3.0, 10.0]),
    form=st.sampled_from(["positions", "games"]),
)
@settings(max_examples=20)
def test_loss_and_gradient_are_those_of_the_formula(seed: int, dual_clip: float, form: str) -> None:
    algorithm = GRPO(clip_range=LOW, clip_range_high=HIGH, dual_clip=dual_clip)
    off_policy(algorithm, form, seed=seed).agrees(algorithm, formula(dual_clip))


@pytest.mark.parametrize("algorithm", [GRPO(dual_clip=3.0), PPO(dual_clip=3.0)])
@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (2.9, -2.0, 5.8, 5.8),
        (3.5, -2.0, 6.0, 0.0),  # beyond the dual clip
        (0.5, -2.0, 1.6, 0.0),  # clipped below, as ever
        (3.5, 2.0, -2.4, 0.0),  # clipped above, as ever: the dual clip is for A < 0
        (1.0, -2.0, 2.0, 2.0),
    ],
)
def test_hand_computed_losses_and_gradients(
    algorithm: Any, ratio: float, advantage: float, loss: float, gradient: float
) -> None:
    measured = one_sample(algorithm, ratio, advantage)
    assert measured == (pytest.approx(loss), pytest.approx(gradient))
