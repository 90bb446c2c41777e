"""The Kondo gate against its definition in plain numpy."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.core.batch import FlatBatch, blank_batch
from algorithms.kondo import Kondo
from tests.regularization.regularizer_cases import flat_batch, policy
from tests.zoo.by_state import (
    Array,
    assert_same,
    gate_of,
    gradient_of,
    loss_and_gradient,
    made_up,
    states_of,
)

TOP = Kondo(mode="top")


def definition(
    algorithm: Kondo, logits: Tensor, batch: FlatBatch, advantages: Tensor
) -> tuple[Array, Array]:
    """(losses, gradient), sample by sample; the quantile is interpolated by hand."""
    states = states_of(logits, batch)
    delight = {
        (n, k): -advantages[n, k].item() * state.logprobs[slot]
        for n, state in enumerate(states)
        for k, slot in enumerate(state.slots)
        if state.valid[k]
    }
    ordered = sorted(delight.values())
    if algorithm.mode == "top":
        number = max(1, round(algorithm.rate * len(delight)))
        kept = sorted(delight, key=delight.__getitem__, reverse=True)[:number]
    else:
        place = (1 - algorithm.rate) * (len(ordered) - 1)
        below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
        price = below + (above - below) * (place - math.floor(place))
        assert batch.uniforms is not None
        kept = [
            where
            for where, chi in delight.items()
            if batch.uniforms[where].item()
            < 1 / (1 + math.exp(min(700, -(chi - price) / algorithm.eta)))
        ]
    losses, slopes = np.zeros(batch.slots.shape), np.zeros(batch.slots.shape)
    for n, k in kept:
        slopes[n, k] = -advantages[n, k].item()
        losses[n, k] = slopes[n, k] * states[n].logprobs[states[n].slots[k]]
    return losses, gradient_of(states, slopes, batch.temperature)


@given(
    seed=st.integers(0, 2**31),
    moved=st.sampled_from([0.0, 0.5]),
    rate=st.floats(0.01, 1.0),
    eta=st.sampled_from([0.01, 0.1, 3.0]),
    mode=st.sampled_from(["sampled", "top"]),
)
@settings(max_examples=60)
def test_loss_and_gradient_are_those_of_the_definition(
    seed: int, moved: float, rate: float, eta: float, mode: Any
) -> None:
    logits, batch, advantages = made_up(seed, moved)
    algorithm = Kondo(rate=rate, eta=eta, mode=mode)
    found = loss_and_gradient(algorithm, logits, batch, advantages)
    assert_same(found, definition(algorithm, logits, batch, advantages))


def test_by_hand_the_unlikely_good_move_is_kept_and_the_unlikely_bad_one_left_out() -> None:
    # Surprisals ln 10 = 2.303 and -ln 0.9 = 0.105 nats; delights 2.303, -2.303, 0.105, -0.105.
    logits = torch.tensor([[0.1, 0.9]]).double().log().expand(4, 2)
    slots = torch.tensor([[0], [0], [1], [1]])
    batch = flat_batch(logits, torch.ones(4, 2, dtype=torch.bool), slots, temperature=1.0)
    advantages = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]).double()

    def kept(algorithm: Kondo, uniform: float) -> list[float]:
        drawn = dataclasses.replace(batch, uniforms=torch.full((4, 1), uniform))
        return gate_of(algorithm, policy(logits, drawn), drawn, advantages)[:, 0].tolist()

    assert kept(dataclasses.replace(TOP, rate=0.25), 0.5) == [1, 0, 0, 0]
    assert kept(dataclasses.replace(TOP, rate=0.5), 0.5) == [1, 0, 1, 0]
    assert kept(dataclasses.replace(TOP, rate=0.01), 0.5) == [1, 0, 0, 0]  # at least one
    # Price at rate 0.5: the median, 0. Odds at eta 0.1: 1, 0, sigmoid(1.054) = 0.741, 0.259.
    assert kept(Kondo(rate=0.5), 0.74) == [1, 0, 1, 0]
    assert kept(Kondo(rate=0.5), 0.75) == [1, 0, 0, 0]
    assert kept(Kondo(rate=0.5), 0.25) == [1, 0, 1, 1]


def test_samples_that_are_left_out_still_count_in_the_mean() -> None:
    valid = torch.tensor([[[True, True, False, True]]])
    batch = dataclasses.replace(blank_batch("positions", (1, 1), samples=4), valid=valid)
    torch.testing.assert_close(Kondo().weights(batch), valid / 3)


def test_draws_without_random_numbers_are_refused_with_the_remedy() -> None:
    logits, batch, advantages = made_up(1, 0.3)
    bare = dataclasses.replace(batch, uniforms=None)
    with pytest.raises(ValueError, match=r"no uniforms: .*Needs\(uniforms=True\)"):
        gate_of(Kondo(), policy(logits, bare), bare, advantages)
    assert Kondo().needs().uniforms and not TOP.needs().uniforms
    assert gate_of(TOP, policy(logits, bare), bare, advantages).any()
