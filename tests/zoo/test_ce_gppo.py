"""CE-GPPO against its formula in plain Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.ce_gppo import CEGPPO
from algorithms.cispo import CISPO
from algorithms.core.algorithm import Controls
from algorithms.grpo import GRPO
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
    high=st.sampled_from([0.2, 0.4]),
    beta_low=st.sampled_from([0.0, 0.25, 0.75, 1.0]),
    beta_high=st.sampled_from([0.0, 0.5, 1.0]),
    form=st.sampled_from(["positions", "games"]),
)
@settings(max_examples=25, deadline=None)
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


@pytest.mark.parametrize("form", ["positions", "games"])
@pytest.mark.parametrize("bounds", [(0.2, None), (0.1, 0.4), (1.0, math.inf)])
def test_with_beta_0_it_has_ppo_s_gradient_to_the_last_bit(
    form: str, bounds: tuple[float, float | None]
) -> None:
    clip = {"clip_range": bounds[0], "clip_range_high": bounds[1]}
    ppo = GRPO(advantage_scale="none", reduction="sample_mean", **clip)  # type: ignore[arg-type]
    algorithm = CEGPPO(beta_low=0.0, beta_high=0.0, **clip)  # type: ignore[arg-type]
    batch = off_policy(ppo, form)
    assert torch.equal(batch.case.batch.flatten(algorithm.weights(batch.case.batch)), batch.weights)
    found, expected = batch.losses(algorithm), batch.losses(ppo)
    assert torch.equal(found[1], expected[1]) and found[1].any()
    # The losses differ where the clip is: PPO's is a constant there, this one 0.
    inside = found[0] == expected[0]
    assert (found[0][~inside] == 0).all()
    assert inside.all() == (bounds[1] == math.inf)


def test_with_beta_1_clipped_samples_have_cispo_s_gradient() -> None:
    algorithm = CEGPPO(beta_low=1.0)
    batch = off_policy(algorithm)
    ratios, advantages = batch.ratios(), batch.advantages
    as_cispo = batch.flat.valid & (
        ((ratios > 0.8) | (advantages < 0)) & ((ratios < 1.2) | (advantages > 0))
    )
    assert (as_cispo & ((ratios > 1.2) | (ratios < 0.8))).any()

    def slopes(surrogate: Any) -> torch.Tensor:
        logits = batch.logits.clone().requires_grad_()
        controls = Controls(clip_low=0.2, clip_high=0.2)
        loss = surrogate.policy_loss(batch.case.dist(logits), batch.flat, advantages, controls).loss
        return torch.autograd.grad(loss[as_cispo].sum(), logits)[0]

    torch.testing.assert_close(slopes(algorithm), slopes(CISPO()), rtol=1e-12, atol=1e-14)
