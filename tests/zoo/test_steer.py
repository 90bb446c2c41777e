"""STEER against its definition in plain numpy."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.core.batch import FlatBatch
from algorithms.steer import STEER
from tests.regularization.regularizer_cases import flat_batch, policy
from tests.zoo.by_state import (
    Array,
    State,
    assert_same,
    clipped,
    gate_of,
    gradient_of,
    loss_and_gradient,
    made_up,
    states_of,
)


def sizes(states: list[State], advantages: Tensor) -> dict[tuple[int, int], float]:
    """|A / p_old * p (1 - p) (log p + H_old)| of every valid sample."""
    found = {}
    for n, state in enumerate(states):
        for k, slot in enumerate(state.slots):
            if state.valid[k]:
                p, old = math.exp(state.logprobs[slot]), math.exp(state.old_logprobs[slot])
                change = advantages[n, k].item() / old * p * (1 - p)
                found[n, k] = abs(change * (math.log(p) + state.old_entropy))
    return found


def definition(
    least: float, most: float, logits: Tensor, batch: FlatBatch, advantages: Tensor
) -> tuple[Array, Array]:
    """(losses, gradient), sample by sample."""
    states = states_of(logits, batch)
    found = sizes(states, advantages)
    smallest, largest = min(found.values()), max(found.values())
    losses, slopes = np.zeros(batch.slots.shape), np.zeros(batch.slots.shape)
    for (n, k), size in found.items():
        weight = most - (most - least) * (size - smallest) / (largest - smallest)
        loss, slope = clipped(states[n].log_ratio(k), advantages[n, k].item(), 0.8, 1.2)
        losses[n, k], slopes[n, k] = weight * loss, weight * slope
    return losses, gradient_of(states, slopes, batch.temperature)


@given(
    seed=st.integers(0, 2**31),
    moved=st.sampled_from([0.0, 0.1, 1.0]),
    bounds=st.sampled_from([(0.8, 1.2), (0.0, 1.0), (0.5, 3.0)]),
)
@settings(max_examples=40)
def test_loss_and_gradient_are_those_of_the_definition(
    seed: int, moved: float, bounds: tuple[float, float]
) -> None:
    logits, batch, advantages = made_up(seed, moved)
    algorithm = STEER(weight_min=bounds[0], weight_max=bounds[1])
    found = loss_and_gradient(algorithm, logits, batch, advantages)
    assert_same(found, definition(*bounds, logits, batch, advantages))


def test_by_hand_even_odds_change_no_entropy_and_the_rare_good_move_changes_it_most() -> None:
    # At even odds log p + H = 0. At p = 0.2: A (1 - p) (ln 0.2 + 0.5004) = -0.8872 A; at p = 0.8: 0.0555 A.
    logits = torch.tensor([[0.5, 0.5], [0.2, 0.8], [0.8, 0.2]]).double().log()
    legal = torch.ones(3, 2, dtype=torch.bool)
    batch = flat_batch(logits, legal, torch.zeros(3, 1, dtype=torch.int64), temperature=1.0)
    advantages = torch.ones(3, 1).double()
    gate = gate_of(STEER(), policy(logits, batch), batch, advantages)
    entropy = -(0.2 * math.log(0.2) + 0.8 * math.log(0.8))
    rare, common = 0.8 * abs(math.log(0.2) + entropy), 0.2 * abs(math.log(0.8) + entropy)
    expected = torch.tensor([[1.2], [0.8], [1.2 - 0.4 * common / rare]]).double()
    torch.testing.assert_close(gate, expected)


def test_where_all_changes_are_equal_the_weight_is_the_middle() -> None:
    logits, batch, advantages = made_up(5, 0.4)
    gate = gate_of(
        STEER(weight_min=0.5, weight_max=0.9),
        policy(logits, batch),
        batch,
        torch.zeros_like(advantages),
    )
    torch.testing.assert_close(gate, 0.7 * batch.valid.double())
