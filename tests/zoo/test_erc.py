"""ERC against its definition in plain numpy."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.core.batch import FlatBatch
from algorithms.erc import ERC
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


def definition(
    algorithm: ERC, logits: Tensor, batch: FlatBatch, advantages: Tensor
) -> tuple[Array, Array]:
    """(losses, gradient), state by state."""
    states = states_of(logits, batch)
    losses, slopes = np.zeros(batch.slots.shape), np.zeros(batch.slots.shape)
    for n, state in enumerate(states):
        ratio = (state.entropy + 1e-8) / (state.old_entropy + 1e-8)
        if not algorithm.entropy_ratio_low < ratio < algorithm.entropy_ratio_high:
            continue
        for k in range(len(state.slots)):
            if state.valid[k]:
                losses[n, k], slopes[n, k] = clipped(
                    state.log_ratio(k), advantages[n, k].item(), 0.8, 1.3
                )
    return losses, gradient_of(states, slopes, batch.temperature)


@given(
    seed=st.integers(0, 2**31),
    moved=st.sampled_from([0.05, 0.3, 1.0]),
    bounds=st.sampled_from([(0.95, 1.05), (0.8, 1.2), (0.0, 1.01), (0.99, math.inf)]),
)
@settings(max_examples=40)
def test_loss_and_gradient_are_those_of_the_definition(
    seed: int, moved: float, bounds: tuple[float, float]
) -> None:
    logits, batch, advantages = made_up(seed, moved)
    algorithm = ERC(entropy_ratio_low=bounds[0], entropy_ratio_high=bounds[1], clip_range_high=0.3)
    found = loss_and_gradient(algorithm, logits, batch, advantages)
    assert_same(found, definition(algorithm, logits, batch, advantages))


def test_by_hand_a_state_that_sharpened_from_even_odds_is_left_out() -> None:
    legal = torch.ones(2, 2, dtype=torch.bool)
    batch = flat_batch(torch.zeros(2, 2).double(), legal, torch.tensor([[0], [0]]), temperature=1.0)
    # p = 1/2 has ln 2 = 0.6931 nats; p = 0.6 has 0.6730 (0.971 of it), p = 0.7 has 0.6109 (0.881).
    logits = torch.tensor([[math.log(0.6), math.log(0.4)], [math.log(0.7), math.log(0.3)]]).double()
    advantages = torch.ones(2, 1).double()
    gate = gate_of(ERC(), policy(logits, batch), batch, advantages)
    assert gate.tolist() == [[1.0], [0.0]]
    loss = (
        ERC(clip_range_high=0.25)
        .policy_loss(policy(logits, batch), batch, advantages, ERC(clip_range_high=0.25).controls())
        .loss
    )
    torch.testing.assert_close(loss, torch.tensor([[-1.2], [0.0]]).double())
    wider = ERC(entropy_ratio_low=0.88)
    assert gate_of(wider, policy(logits, batch), batch, advantages).tolist() == [[1.0], [1.0]]


def test_a_policy_that_became_certain_of_a_move_is_left_out_and_finite() -> None:
    legal = torch.ones(1, 3, dtype=torch.bool)
    batch = flat_batch(torch.zeros(1, 3), legal, torch.tensor([[0]]), temperature=1.0)
    logits = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    loss, gradient = loss_and_gradient(ERC(), logits, batch, torch.ones(1, 1))
    assert not loss.any() and not gradient.any()
