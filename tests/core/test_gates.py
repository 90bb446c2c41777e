from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.core.losses import clip_cov, delight

ALL = {"fraction": 1.0, "cov_low": 0.1, "cov_high": 10.0}


def random_inputs(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(logprobs, advantages, valid, uniforms), each `[12, 3]`."""
    generator = torch.Generator().manual_seed(seed)
    logprobs = -3 * torch.rand(12, 3, generator=generator, dtype=torch.float64)
    advantages = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    valid = torch.rand(12, 3, generator=generator) < 0.8
    return logprobs, advantages, valid, torch.rand(12, 3, generator=generator)


def test_a_hand_computed_delight_gate() -> None:
    logprobs = torch.tensor([[-1.0, -3.0]], dtype=torch.float64)
    advantages = torch.tensor([[2.0, -2.0]], dtype=torch.float64)  # mean 0, std 2
    valid = torch.ones(1, 2, dtype=torch.bool)
    scaled = delight(logprobs, advantages, valid, eta=0.5, lam=1.0, scale="std")
    # (2 * 1 - 1) / (.5 * 2) = 1 and (-2 * 3 - 1) / 1 = -7
    expected = [1 / (1 + math.exp(-1)), 1 / (1 + math.exp(7))]
    assert scaled[0].tolist() == pytest.approx(expected)
    raw = delight(logprobs, advantages, valid, eta=0.5, lam=1.0, scale="none")
    # (2 * 1 - 1) / .5 = 2 and (-2 * 3 - 1) / .5 = -14
    expected = [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(14))]
    assert raw[0].tolist() == pytest.approx(expected)


@given(seed=st.integers(0, 2**31), scale=st.floats(1e-3, 1e3))
@settings(max_examples=40)
def test_the_delight_gate_does_not_depend_on_the_advantages_unit_or_on_invalid_samples(
    seed: int, scale: float
) -> None:
    logprobs, advantages, valid, _ = random_inputs(seed)
    gate = delight(logprobs, advantages, valid, eta=0.7, lam=0.0, scale="std")
    torch.testing.assert_close(
        delight(logprobs, scale * advantages, valid, eta=0.7, lam=0.0, scale="std"), gate
    )
    junk = [each.masked_fill(~valid, torch.nan) for each in (logprobs, advantages)]
    dirty = delight(*junk, valid, eta=0.7, lam=0.0, scale="std")
    assert torch.equal(dirty, gate)
    assert (gate[~valid] == 0).all()
    assert ((gate >= 0) & (gate <= 1)).all()


@pytest.mark.parametrize("advantage", [0.0, 0.3])
def test_equal_advantages_give_half_a_gate(advantage: float) -> None:
    advantages = torch.full((4, 2), advantage)
    valid = torch.ones(4, 2, dtype=torch.bool)
    gate = delight(
        -torch.arange(8.0).reshape(4, 2), advantages, valid, eta=1.0, lam=0.0, scale="std"
    )
    assert (gate == 0.5).all()


def test_no_valid_sample_and_one_valid_sample_give_finite_gates() -> None:
    logprobs, advantages, valid, uniforms = random_inputs(0)
    for chosen in (torch.zeros_like(valid), torch.arange(36).reshape(12, 3) == 5):
        gate = delight(logprobs, advantages, chosen, eta=1.0, lam=0.0, scale="std")
        assert torch.equal(gate, 0.5 * chosen)
        kept = clip_cov(logprobs, advantages, chosen, uniforms, **ALL)
        assert torch.equal(kept, chosen.double())


def test_no_gradient_flows_through_either_gate() -> None:
    logprobs, advantages, valid, uniforms = random_inputs(1)
    logprobs.requires_grad_()
    advantages.requires_grad_()
    assert not delight(logprobs, advantages, valid, eta=1.0, lam=0.0, scale="std").requires_grad
    assert not clip_cov(logprobs, advantages, valid, uniforms, **ALL).requires_grad


def test_clip_cov_leaves_out_the_qualifying_samples_with_the_smallest_uniforms() -> None:
    # mean A 0, std 1, mean logprob -2: covariances are -A (... + 2) = 1.5, .5, -.5, .5
    advantages = torch.tensor([[1.0, 1.0, -1.0, -1.0]], dtype=torch.float64)
    logprobs = torch.tensor([[-0.5, -1.5, -1.5, -4.5]], dtype=torch.float64)
    valid = torch.ones(1, 4, dtype=torch.bool)
    uniforms = torch.tensor([[0.9, 0.2, 0.1, 0.5]])
    covariance = [1.5, 0.5, -0.5, 2.5]
    mean = float(logprobs.mean())
    assert mean == -2.0
    assert [float(a * (x - mean)) for a, x in zip(advantages[0], logprobs[0], strict=True)] == (
        covariance
    )

    def gate(fraction: float, low: float, high: float) -> list[float]:
        return clip_cov(logprobs, advantages, valid, uniforms, fraction, low, high)[0].tolist()

    assert gate(0.25, 0.0, 5.0) == [1.0, 0.0, 1.0, 1.0]  # one of three, uniform .2
    assert gate(0.5, 0.0, 5.0) == [1.0, 0.0, 1.0, 0.0]
    assert gate(1.0, 0.0, 5.0) == [0.0, 0.0, 1.0, 0.0]  # all that qualify, no more
    assert gate(1.0, 0.0, 2.0) == [0.0, 0.0, 1.0, 1.0]  # 2.5 is above the range
    assert gate(1.0, 1.0, 5.0) == [0.0, 1.0, 1.0, 0.0]  # .5 is below it
    assert gate(1e-4, 0.0, 5.0) == [1.0, 0.0, 1.0, 1.0]  # at least one where any qualifies
    assert gate(1.0, 3.0, 5.0) == [1.0, 1.0, 1.0, 1.0]  # none qualifies


@given(seed=st.integers(0, 2**31), scale=st.floats(1e-3, 1e3))
@settings(max_examples=40)
def test_clip_cov_equals_its_definition_on_the_valid_samples(seed: int, scale: float) -> None:
    logprobs, advantages, valid, uniforms = random_inputs(seed)
    found = clip_cov(
        logprobs.masked_fill(~valid, torch.nan),
        scale * advantages.masked_fill(~valid, torch.nan),
        valid,
        uniforms,
        fraction=0.15,
        cov_low=0.2,
        cov_high=2.0,
    )
    chosen_a, chosen_l = advantages[valid], logprobs[valid]
    covariance = (
        (chosen_a - chosen_a.mean()) * (chosen_l - chosen_l.mean()) / chosen_a.std(correction=0)
    )
    candidates = [i for i, c in enumerate(covariance.tolist()) if 0.2 < c < 2.0]
    candidates.sort(key=lambda i: float(uniforms[valid][i]))
    expected = torch.ones(len(covariance), dtype=torch.float64)
    expected[candidates[: max(1, round(0.15 * len(covariance)))]] = 0.0
    assert torch.equal(found[valid], expected)
    assert (found[~valid] == 0).all()


def test_equal_advantages_leave_every_sample_in() -> None:
    logprobs, _, valid, uniforms = random_inputs(2)
    gate = clip_cov(logprobs, torch.full_like(logprobs, 0.3), valid, uniforms, **ALL)
    assert torch.equal(gate, valid.double())


def test_advantages_that_are_0_up_to_rounding_are_not_left_out_by_clip_cov() -> None:
    # Two groups of four: the rewards of the second are equal, and its advantages miss 0 by rounding.
    spread = torch.tensor([[0.7, -0.1, -0.2, -0.4]])
    rounding = torch.tensor([[3e-8, -1e-8, -3e-8, -2e-8]])
    advantages = torch.cat([spread, rounding])
    logprobs = torch.tensor([[-0.5, -1.5, -2.5, -3.5]]).expand(2, 4)
    valid, uniforms = torch.ones(2, 4, dtype=torch.bool), torch.zeros(2, 4)
    everything = {"fraction": 1.0, "cov_low": 0.0, "cov_high": 1e9}
    kept = clip_cov(logprobs, advantages, valid, uniforms, **everything)
    assert kept.tolist() == [[0.0, 1.0, 0.0, 0.0], [1.0] * 4]
    shifted = clip_cov(logprobs, advantages + 1.0, valid, uniforms, **everything)
    assert torch.equal(shifted, kept)


def test_clip_cov_without_random_numbers_is_refused() -> None:
    logprobs, advantages, valid, _ = random_inputs(3)
    with pytest.raises(ValueError, match=r"no uniforms.*FlatBatch\.uniforms"):
        clip_cov(logprobs, advantages, valid, None, **ALL)
