"""BAPO against its definition in plain numpy: the loop over the bounds, step by step."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.bapo import BAPO, balanced_bounds, ladder
from algorithms.core.algorithm import Controls
from algorithms.core.batch import FlatBatch
from algorithms.grpo import GRPO
from tests.regularization.regularizer_cases import flat_batch
from tests.zoo.by_state import (
    Array,
    State,
    assert_same,
    clipped,
    gradient_of,
    loss_and_gradient,
    made_up,
    states_of,
)


def contributions(
    states: list[State], advantages: Tensor, low: float, high: float
) -> tuple[float, float]:
    """(positive, negative) sums of the clipped ratio times the advantage; bounds of the ratio itself."""
    positive = negative = 0.0
    for n, state in enumerate(states):
        for k in range(len(state.slots)):
            ratio, advantage = math.exp(state.log_ratio(k)), advantages[n, k].item()
            if state.valid[k] and advantage >= 0:
                positive += min(ratio, high) * advantage
            elif state.valid[k]:
                negative -= max(ratio, low) * advantage
    return positive, negative


def searched(
    states: list[State], advantages: Tensor, low: float, low_max: float, high: float, target: float
) -> tuple[float, float]:
    """The bounds of the ratio that the authors' loop ends at, in steps of 0.05, the upper one up to 2."""

    def unmet(low: float, high: float) -> bool:
        positive, negative = contributions(states, advantages, low, high)
        return negative > 0 and positive / negative < target

    while unmet(low, high) and low < low_max - 1e-9:
        low = min(low + 0.05, low_max)
    while unmet(low, high) and high < 2.0 - 1e-9:
        high = min(high + 0.05, 2.0)
    return low, high


def definition(
    logits: Tensor, batch: FlatBatch, advantages: Tensor, target: float
) -> tuple[Array, Array]:
    """(losses, gradient), sample by sample."""
    states = states_of(logits, batch)
    low, high = searched(states, advantages, 0.6, 0.8, 1.2, target)
    losses, slopes = np.zeros(batch.slots.shape), np.zeros(batch.slots.shape)
    for n, state in enumerate(states):
        for k in range(len(state.slots)):
            if state.valid[k]:
                losses[n, k], slopes[n, k] = clipped(
                    state.log_ratio(k), advantages[n, k].item(), low, high
                )
    return losses, gradient_of(states, slopes, batch.temperature)


@given(
    seed=st.integers(0, 2**31),
    moved=st.sampled_from([0.1, 0.5, 1.0]),
    target=st.sampled_from([0.0, 0.5, 1.0, 1.3, 5.0]),
)
@settings(max_examples=60)
def test_loss_and_gradient_are_those_of_the_definition(
    seed: int, moved: float, target: float
) -> None:
    logits, batch, advantages = made_up(seed, moved)
    found = loss_and_gradient(BAPO(balance=target), logits, batch, advantages)
    assert_same(found, definition(logits, batch, advantages, target))


def by_hand() -> tuple[Tensor, FlatBatch, Tensor]:
    """Two states with two moves, even when sampled: r = 1.6 with A = 1, and r = 0.4 with A = -2."""
    logits = torch.tensor([[0.8, 0.2], [0.2, 0.8]]).double().log().requires_grad_()
    legal = torch.ones(2, 2, dtype=torch.bool)
    slots = torch.zeros(2, 1, dtype=torch.int64)
    batch = flat_batch(torch.zeros(2, 2).double(), legal, slots, temperature=1.0)
    return logits, batch, torch.tensor([[1.0], [-2.0]]).double()


@pytest.mark.parametrize(
    ("target", "losses"),
    [
        # positive min(1.6, high), negative 2 max(0.4, low): 1.2 / 1.2 at the start
        (0.99, [-1.2, 1.2]),
        # 1.2 / 1.6 at low = 0.8; the upper bound rises as well, and 1.6 / 1.6 is the most there is
        (1.01, [-1.6, 1.6]),
        (9.0, [-1.6, 1.6]),
    ],
)
def test_by_hand_the_lower_bound_rises_before_the_upper_one(
    target: float, losses: list[float]
) -> None:
    logits, batch, advantages = by_hand()
    found, gradient = loss_and_gradient(BAPO(balance=target), logits, batch, advantages)
    torch.testing.assert_close(found[:, 0], torch.tensor(losses).double())
    # The good move's gradient passes once its bound has risen above 1.6; the bad one's never does.
    assert bool(gradient[0].any()) == (losses[0] == -1.6) and not gradient[1].any()


def test_the_search_stops_at_the_first_bound_that_balances() -> None:
    ratio, advantages = torch.tensor([[1.6], [0.9]]), torch.tensor([[1.0], [-1.5]])
    valid = torch.ones(2, 1, dtype=torch.bool)
    lows, highs = ladder(0.4, 0.2, 0.05), ladder(0.2, 1.0, 0.05)
    assert lows == pytest.approx([0.4, 0.35, 0.3, 0.25, 0.2]) and len(highs) == 17
    # Negative 1.35 at every lower bound; positive min(1.6, high).
    for target, bounds in ((0.8, (0.4, 0.2)), (1.0, (0.2, 0.35)), (1.1, (0.2, 0.5)), (2, (0.2, 1))):
        found = balanced_bounds(ratio, advantages, valid, lows, highs, target)
        assert found == pytest.approx(bounds), target


def test_without_bad_moves_nothing_is_searched() -> None:
    logits, batch, advantages = made_up(2, 1.0)
    found = loss_and_gradient(BAPO(), logits, batch, advantages.abs())
    plain = GRPO(clip_range=0.4, clip_range_high=0.2)
    expected = loss_and_gradient(plain, logits, batch, advantages.abs())
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])


def test_the_search_starts_from_the_bounds_of_the_controls() -> None:
    logits, batch, advantages = made_up(7, 1.0)
    moved = Controls(clip_low=0.1, clip_high=1.5)  # beyond both ends: nothing is left to search
    found = loss_and_gradient(BAPO(balance=9.0), logits, batch, advantages, moved)
    plain = loss_and_gradient(GRPO(), logits, batch, advantages, moved)
    assert torch.equal(found[0], plain[0]) and torch.equal(found[1], plain[1])
    assert BAPO().controls() == Controls(clip_low=0.4, clip_high=0.2)


@given(start=st.floats(0.01, 1.0), end=st.floats(0.01, 1.0), step=st.floats(0.01, 2.0))
def test_a_ladder_begins_and_ends_where_it_should(start: float, end: float, step: float) -> None:
    rungs = ladder(start, end, step)
    assert rungs[0] == (start if abs(end - start) > 1e-9 * step else end) and rungs[-1] == end
    gaps = [abs(b - a) for a, b in itertools.pairwise(rungs)]
    assert all(0 < gap <= step * (1 + 1e-6) for gap in gaps)
