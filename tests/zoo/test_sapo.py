"""SAPO against its formula in plain Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core.losses import game_mean
from algorithms.grpo import GRPO
from algorithms.sapo import SAPO
from tests.zoo.by_formula import off_policy, one_sample
from tests.zoo.by_state import gate_of


def formula(tau_positive: float, tau_negative: float) -> Any:
    def surrogate(logprob: float, old_logprob: float, advantage: float) -> tuple[float, float]:
        tau = tau_positive if advantage > 0 else tau_negative
        ratio = math.exp(logprob - old_logprob)
        # 4 p (1 - p), p = sigmoid(x), is 1 / cosh(x / 2)^2, and p is (1 + tanh(x / 2)) / 2.
        half = tau * (ratio - 1) / 2
        loss = -2 / tau * (1 + math.tanh(half)) * advantage
        return loss, -ratio * advantage / math.cosh(half) ** 2

    return surrogate


@given(
    seed=st.integers(0, 2**31),
    tau_positive=st.sampled_from([0.3, 1.0, 4.0]),
    tau_negative=st.sampled_from([0.5, 1.05, 4.2]),
    form=st.sampled_from(["positions", "games"]),
)
@settings(max_examples=25)
def test_loss_and_gradient_are_those_of_the_formula(
    seed: int, tau_positive: float, tau_negative: float, form: str
) -> None:
    algorithm = SAPO(tau_positive=tau_positive, tau_negative=tau_negative)
    off_policy(algorithm, form, seed=seed).agrees(algorithm, formula(tau_positive, tau_negative))


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 2.0, -4.0, -2.0),  # -4 x 1/2 x 2, and the score function's gradient
        (1.0, -2.0, 8 / 2.1, 2.0),
        (2.0, 2.0, -8 * 0.7310585786, -16 * 0.7310585786 * 0.2689414214),
        (0.5, -2.0, 8 / 1.05 * 0.3716838117, 4 * 0.3716838117 * 0.6283161883),
    ],
)
def test_hand_computed_losses_and_gradients(
    ratio: float, advantage: float, loss: float, gradient: float
) -> None:
    measured = one_sample(SAPO(), ratio, advantage)
    assert measured == (pytest.approx(loss, rel=1e-8), pytest.approx(gradient, rel=1e-8))


def test_the_gate_is_the_share_of_the_unclipped_ratio_s_gradient_that_is_left() -> None:
    batch = off_policy(SAPO())
    unclipped = GRPO(clip_range=1.0, clip_range_high=math.inf)

    def slopes(algorithm: Any) -> torch.Tensor:
        logprobs = batch.case.dist(batch.logits).gather(batch.flat.slots).detach().requires_grad_()

        class Chosen:
            def gather(self, slots: torch.Tensor) -> torch.Tensor:
                return logprobs

        dist: Any = Chosen()
        loss = algorithm.policy_loss(dist, batch.flat, batch.advantages, algorithm.controls()).loss
        return torch.autograd.grad(loss.sum(), logprobs)[0]

    gate = gate_of(SAPO(), batch.case.dist(batch.logits), batch.flat, batch.advantages)
    valid = batch.flat.valid
    torch.testing.assert_close(
        slopes(SAPO())[valid], (gate * slopes(unclipped))[valid], rtol=1e-11, atol=1e-14
    )
    assert 0 < gate[valid].min() < 0.9 and gate[valid].max() <= 1


def test_a_game_weighs_the_same_whatever_its_length_as_in_the_source() -> None:
    batch = off_policy(SAPO(), "games")
    valid = batch.case.batch.valid
    assert torch.equal(SAPO().weights(batch.case.batch), game_mean(valid, torch.float64))
    assert len(valid.sum(-1).unique()) > 2
