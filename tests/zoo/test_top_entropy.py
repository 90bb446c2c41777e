"""The 80/20 rule (`GRPO.top_entropy_fraction`) against its definition in plain numpy."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.core.batch import FlatBatch
from algorithms.grpo import GRPO, top_entropy
from algorithms.testing.cases import random_case
from tests.regularization.regularizer_cases import flat_batch, policy
from tests.zoo.by_state import (
    Array,
    assert_same,
    clipped,
    gate_of,
    gradient_of,
    loss_and_gradient,
    made_up,
    states_of,
)

TOP = GRPO(advantage_scale="none", reduction="sample_mean", top_entropy_fraction=0.2)


def with_share(fraction: float) -> GRPO:
    return dataclasses.replace(TOP, top_entropy_fraction=fraction)


def definition(
    fraction: float, logits: Tensor, batch: FlatBatch, advantages: Tensor
) -> tuple[Array, Array]:
    """(losses, gradient), state by state; the quantile is interpolated by hand."""
    states = states_of(logits, batch)
    ordered = sorted(state.entropy for state in states if any(state.valid))
    place = (1 - fraction) * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    least = below + (above - below) * (place - math.floor(place))
    losses, slopes = np.zeros(batch.slots.shape), np.zeros(batch.slots.shape)
    for n, state in enumerate(states):
        for k in range(len(state.slots)):
            if state.valid[k] and state.entropy >= least - 1e-12:
                losses[n, k], slopes[n, k] = clipped(
                    state.log_ratio(k), advantages[n, k].item(), 0.8, 1.2
                )
    return losses, gradient_of(states, slopes, batch.temperature)


@given(
    seed=st.integers(0, 2**31),
    moved=st.sampled_from([0.05, 0.5]),
    fraction=st.floats(0.01, 0.99),
)
@settings(max_examples=40)
def test_loss_and_gradient_are_those_of_the_definition(
    seed: int, moved: float, fraction: float
) -> None:
    logits, batch, advantages = made_up(seed, moved)
    found = loss_and_gradient(with_share(fraction), logits, batch, advantages)
    assert_same(found, definition(fraction, logits, batch, advantages))


def of_shares(shares: list[float]) -> tuple[Tensor, FlatBatch, Tensor]:
    """States with two moves, the first played with this probability, by the learner and the sampler."""
    logits = torch.tensor([[math.log(p), math.log(1 - p)] for p in shares]).double()
    legal = torch.ones(len(shares), 2, dtype=torch.bool)
    slots = torch.zeros(len(shares), 1, dtype=torch.int64)
    ones = torch.ones(len(shares), 1).double()
    return logits, flat_batch(logits, legal, slots, temperature=1.0), ones


def test_by_hand_the_two_broadest_of_ten_states_pass() -> None:
    shares = [0.99, 0.5, 0.9, 0.95, 0.8, 0.6, 0.97, 0.7, 0.85, 0.98]
    logits, batch, ones = of_shares(shares)
    gate = gate_of(with_share(0.2), policy(logits, batch), batch, ones)
    assert gate is not None
    assert [p for p, passes in zip(shares, gate[:, 0].tolist(), strict=True) if passes] == [
        0.5,
        0.6,
    ]
    loss = with_share(0.2).policy_loss(policy(logits, batch), batch, ones, TOP.controls()).loss
    assert loss[:, 0].tolist() == [-passes for passes in gate[:, 0].tolist()]


def test_what_is_left_out_still_counts_in_the_mean() -> None:
    # As in TRL: the sum over the states that pass, divided by all.
    batch = random_case(TOP).batch
    assert torch.equal(with_share(0.2).weights(batch), with_share(1.0).weights(batch))


def test_the_share_is_of_the_states_with_a_valid_sample() -> None:
    logits, batch, ones = of_shares([0.5, 0.6, 0.8, 0.9])
    hidden = dataclasses.replace(batch, valid=torch.tensor([[False], [False], [True], [True]]))
    gate = gate_of(with_share(0.5), policy(logits, hidden), hidden, ones)
    assert gate is not None and gate[:, 0].tolist() == [0.0, 0.0, 1.0, 0.0]
    nothing = dataclasses.replace(batch, valid=torch.zeros_like(batch.valid))
    gate = gate_of(with_share(0.5), policy(logits, nothing), nothing, ones)
    assert gate is not None and not gate.any()


@pytest.mark.parametrize("fraction", [1e-6, 0.2, 0.5])
def test_equal_entropies_all_pass(fraction: float) -> None:
    logits, batch, ones = of_shares([0.7, 0.7, 0.7])
    gate = gate_of(with_share(fraction), policy(logits, batch), batch, ones)
    assert gate is not None and gate.all()


@pytest.mark.parametrize("moved", [0.0, 0.5, 3.0])
def test_a_share_of_1_is_grpo_bit_for_bit_and_has_no_gate(moved: float) -> None:
    logits, batch, advantages = made_up(4, moved)
    assert GRPO().top_entropy_fraction == 1.0
    assert gate_of(GRPO(), policy(logits, batch), batch, advantages) is None
    found = loss_and_gradient(with_share(1.0), logits, batch, advantages)
    plain = loss_and_gradient(GRPO(), logits, batch, advantages)
    assert torch.equal(found[0], plain[0]) and torch.equal(found[1], plain[1])
    # So is the gate of all states itself: the narrowest state is its own bound.
    gate = top_entropy(policy(logits, batch), batch.valid, 1.0)
    assert torch.equal(gate, batch.valid.double())
