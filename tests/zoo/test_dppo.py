"""DPPO against its formula in plain Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.dppo import DPPO, Divergence, divergence_gate
from tests.zoo.by_formula import off_policy, one_sample
from tests.zoo.by_state import gate_of


def kept(pi: float, mu: float, advantage: float, divergence: str, low: float, high: float) -> bool:
    """Whether the definition keeps a sample's gradient."""
    if divergence == "tv":
        return pi - mu <= high if advantage > 0 else pi - mu >= -low
    coin = mu * math.log(mu / pi)
    if mu < 1:
        coin += (1 - mu) * math.log((1 - mu + 1e-8) / (1 - pi + 1e-8))
    return coin <= high or pi <= mu if advantage > 0 else coin <= low or pi >= mu


def formula(divergence: str, low: float, high: float, ratio_cap: float) -> Any:
    def surrogate(logprob: float, old_logprob: float, advantage: float) -> tuple[float, float]:
        pi, mu = math.exp(logprob), math.exp(old_logprob)
        if not kept(pi, mu, advantage, divergence, low, high):
            return 0.0, 0.0
        slope = -advantage * min(pi / mu, ratio_cap)
        return slope * logprob, slope

    return surrogate


@given(
    seed=st.integers(0, 2**31),
    divergence=st.sampled_from(["tv", "kl"]),
    low=st.sampled_from([0.02, 0.15]),
    high=st.sampled_from([0.05, 0.3]),
    ratio_cap=st.sampled_from([1.5, 20.0]),
    form=st.sampled_from(["positions", "games"]),
)
@settings(max_examples=25)
def test_loss_and_gradient_are_those_of_the_formula(
    seed: int, divergence: Divergence, low: float, high: float, ratio_cap: float, form: str
) -> None:
    algorithm = DPPO(
        divergence=divergence, divergence_low=low, divergence_high=high, ratio_cap=ratio_cap
    )
    batch = off_policy(algorithm, form, seed=seed)
    batch.agrees(algorithm, formula(divergence, low, high, ratio_cap))


def test_the_random_batches_hold_samples_on_every_side() -> None:
    batch = off_policy(DPPO())
    for divergence in ("tv", "kl"):
        algorithm = DPPO(divergence=divergence)  # type: ignore[arg-type]
        gate = gate_of(algorithm, batch.case.dist(batch.logits), batch.flat, batch.advantages)
        for sign in (batch.advantages > 0, batch.advantages < 0):
            assert len(gate[batch.flat.valid & sign].unique()) == 2, divergence


@pytest.mark.parametrize(
    ("divergence", "ratio", "prob", "advantage", "loss_per_logprob"),
    [
        ("tv", 1.0, 0.5, 2.0, -2.0),
        ("tv", 1.6, 0.5, 2.0, -3.2),  # .3125 -> .5 is within .2
        ("tv", 2.0, 0.5, 2.0, 0.0),  # .25 -> .5 is not
        ("tv", 2.0, 0.5, -2.0, 4.0),  # it may still fall back
        ("tv", 0.5, 0.3, -2.0, 0.0),  # .6 -> .3
        ("tv", 0.5, 0.3, 2.0, -1.0),  # it may still rise again
        ("tv", 9.0, 0.09, 2.0, -18.0),  # PPO would have let go of a rare move at 1.2
        ("tv", 30.0, 0.15, 2.0, -40.0),  # and the weight is at most 20
        ("kl", 1.6, 0.5, 2.0, 0.0),  # .3125 ln .625 + .6875 ln 1.375 = .072 nats
        ("kl", 1.3, 0.5, 2.0, -2.6),  # .026 nats
        ("kl", 9.0, 0.09, 2.0, 0.0),  # .01 ln (1/9) + .99 ln (.99/.91) = .0614
    ],
)
def test_hand_computed_losses_and_gradients(
    divergence: Divergence, ratio: float, prob: float, advantage: float, loss_per_logprob: float
) -> None:
    loss, gradient = one_sample(DPPO(divergence=divergence), ratio, advantage, prob)
    assert loss == pytest.approx(loss_per_logprob * math.log(prob))
    assert gradient == pytest.approx(loss_per_logprob)


def test_a_threshold_may_be_reached_and_not_passed() -> None:
    pi, mu = torch.tensor([[0.75]]).log(), torch.tensor([[0.5]]).log()
    one, valid = torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool)
    moved = float(pi.double().exp() - mu.double().exp())

    def gate(threshold: float) -> float:
        return divergence_gate(pi, mu, one, valid, "tv", threshold, threshold).item()

    assert gate(moved) == 1.0 and gate(math.nextafter(moved, 0)) == 0.0


def test_a_move_that_is_forced_or_has_no_advantage_always_passes() -> None:
    certain, valid = torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool)
    for advantage in (1.0, -1.0):
        gate = divergence_gate(
            certain, certain, torch.full((1, 2), advantage), valid, "kl", 0.05, 0.05
        )
        assert gate.tolist() == [[1.0, 1.0]]
    far = torch.tensor([[-0.01, -9.0]])
    gate = divergence_gate(far, far.flip(-1), torch.zeros(1, 2), valid, "tv", 0.2, 0.2)
    assert gate.tolist() == [[1.0, 1.0]]


def test_a_probability_that_rounds_to_1_is_no_infinite_divergence() -> None:
    certain = torch.zeros(1, 1)
    gate = divergence_gate(
        certain, torch.full((1, 1), -1e-7), torch.ones(1, 1), torch.ones(1, 1).bool(), "kl", 0.05, 0.05
    )  # fmt: skip
    assert gate.item() == 1.0


def test_the_lower_threshold_stands_for_both_and_its_default_hangs_on_the_divergence() -> None:
    batch = off_policy(DPPO())

    def gradient(**settings: Any) -> torch.Tensor:
        return batch.losses(DPPO(**settings))[1]

    assert torch.equal(gradient(), gradient(divergence_low=0.2, divergence_high=0.2))
    assert torch.equal(gradient(divergence="kl"), gradient(divergence="kl", divergence_low=0.05))
    assert not torch.equal(gradient(), gradient(divergence_high=0.02))
    assert not torch.equal(gradient(), gradient(divergence_low=0.02, divergence_high=0.2))
