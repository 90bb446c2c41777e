from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Categorical, kl_divergence

from algorithms.core.distribution import MaskedCategorical
from algorithms.core.metrics import legal_entropy


def random_case(seed: int, rows: int = 5, slots: int = 9) -> tuple[Tensor, Tensor]:
    """Float64 logits of spread 2 and a mask with 1 to `slots` legal slots in every row."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, slots, generator=generator, dtype=torch.float64)
    num_legal = torch.randint(1, slots + 1, (rows, 1), generator=generator)
    return logits, torch.arange(slots) < num_legal


MAX_MOVES = 218
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

cases = {
    "seed": st.integers(0, 10_000),
    "num_legal": st.integers(1, MAX_MOVES),
    "padding": st.integers(0, 7),
    "temperature": st.floats(0.5, 5),
}


def padded_case(
    seed: int, num_legal: int, padding: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Two sets of logits `[3, L]` with huge numbers on the padding, and the mask."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(2, 3, num_legal + padding, generator=generator, dtype=dtype)
    legal = torch.arange(num_legal + padding).expand(3, -1) < num_legal
    logits = logits.masked_fill(~legal, 1e4)
    return logits[0], logits[1], legal


def close(ours: Tensor, theirs: Tensor) -> None:
    """Fails unless equal to the dtype's tolerance, relative to the largest number or to 1."""
    tolerance = TOLERANCE[theirs.dtype]
    scale = max(1.0, float(theirs.detach().abs().max()))
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(**cases)
@settings(max_examples=40)
def test_entropy_and_its_gradient_are_those_of_torch(
    dtype: torch.dtype, seed: int, num_legal: int, padding: int, temperature: float
) -> None:
    logits, _, legal = padded_case(seed, num_legal, padding, dtype)
    logits.requires_grad_()
    dist = MaskedCategorical(logits, legal, temperature)
    expected = Categorical(logits=logits[:, :num_legal] / temperature).entropy()
    close(dist.entropy(), expected)
    close(legal_entropy(dist.logprobs), expected)
    (own,) = torch.autograd.grad(dist.entropy().sum(), logits)
    (theirs,) = torch.autograd.grad(expected.sum(), logits)
    close(own, theirs)


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(**cases)
@settings(max_examples=40)
def test_kl_and_its_gradient_are_those_of_torch(
    dtype: torch.dtype, seed: int, num_legal: int, padding: int, temperature: float
) -> None:
    logits, other_logits, legal = padded_case(seed, num_legal, padding, dtype)
    logits.requires_grad_()
    dist = MaskedCategorical(logits, legal, temperature)
    other = MaskedCategorical(other_logits, legal, temperature)
    theirs = kl_divergence(
        Categorical(logits=logits[:, :num_legal] / temperature),
        Categorical(logits=other_logits[:, :num_legal] / temperature),
    )
    close(dist.kl(other.logprobs), theirs)
    (own_gradient,) = torch.autograd.grad(dist.kl(other.logprobs).sum(), logits)
    (their_gradient,) = torch.autograd.grad(theirs.sum(), logits)
    close(own_gradient, their_gradient)


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(**cases)
@settings(max_examples=25)
def test_log_probabilities_of_sampled_moves_are_those_of_torch(
    dtype: torch.dtype, seed: int, num_legal: int, padding: int, temperature: float
) -> None:
    logits, _, legal = padded_case(seed, num_legal, padding, dtype)
    dist = MaskedCategorical(logits, legal, temperature)
    slots = dist.sample(4, torch.Generator().manual_seed(seed))
    assert (slots < num_legal).all()
    theirs = Categorical(logits=logits[:, :num_legal] / temperature)
    close(dist.gather(slots), theirs.log_prob(slots.T).T)


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.0, 1e-3, 1.0, 1e3, 1e30]))
@settings(max_examples=60)
def test_entropy_never_exceeds_the_log_of_the_number_of_legal_moves(
    seed: int, scale: float
) -> None:
    logits, legal = random_case(seed, slots=218)
    dist = MaskedCategorical((scale * logits).float(), legal, 1.3)
    entropy = dist.entropy()
    assert torch.isfinite(entropy).all()
    assert (entropy <= legal.sum(-1).float().log() + 1e-5).all()
    assert (entropy >= -1e-6).all()


def test_equal_logits_give_the_most_entropy_and_a_forced_move_gives_none() -> None:
    legal = torch.tensor([[True, True, True, False], [True, False, False, False]])
    dist = MaskedCategorical(torch.full((2, 4), 7.0), legal, 0.5)
    assert dist.entropy()[0].item() == pytest.approx(math.log(3))
    assert dist.entropy()[1].item() == 0.0


def test_illegal_slots_have_probability_zero_and_minus_infinity_whatever_their_logit() -> None:
    legal = torch.tensor([True, False, True])
    dist = MaskedCategorical(torch.tensor([0.0, math.inf, 0.0]), legal, 1.0)
    assert dist.probs.tolist() == [0.5, 0.0, 0.5]
    assert dist.logprobs.tolist() == [
        pytest.approx(math.log(0.5)),
        -math.inf,
        pytest.approx(math.log(0.5)),
    ]


def test_shifting_all_logits_changes_nothing() -> None:
    logits, legal = random_case(3)
    torch.testing.assert_close(
        MaskedCategorical(logits, legal, 0.7).probs,
        MaskedCategorical(logits + 123.0, legal, 0.7).probs,
    )


def test_gradients_equal_finite_differences_and_are_zero_on_illegal_slots() -> None:
    logits, legal = random_case(11, rows=4, slots=6)
    other = MaskedCategorical(random_case(12, rows=4, slots=6)[0], legal, 1.3).logprobs
    slots = torch.zeros(4, 3, dtype=torch.int64)

    def outputs(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dist = MaskedCategorical(z, legal, 1.3)
        return dist.entropy(), dist.kl(other), dist.gather(slots)

    logits.requires_grad_()
    assert torch.autograd.gradcheck(outputs, (logits,))
    sum(value.sum() for value in outputs(logits)).backward()
    assert logits.grad is not None
    assert (logits.grad[~legal] == 0).all()


def test_a_row_without_legal_slots_has_entropy_zero_and_no_gradient() -> None:
    logits = torch.zeros(1, 4, requires_grad=True)
    dist = MaskedCategorical(logits, torch.zeros(1, 4, dtype=torch.bool), 1.0)
    loss = dist.entropy().sum() + dist.gather(torch.zeros(1, 2, dtype=torch.int64)).sum()
    loss.backward()
    assert loss.item() == 0.0
    assert logits.grad is not None
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_legal_logit_that_is_not_finite_shows_in_every_number_of_its_row(bad: float) -> None:
    """-inf would pass for a probability of 0: the loss of the moves beside it is finite."""
    logits = torch.zeros(2, 3)
    logits[0, 0], logits[1, 2] = bad, bad
    legal = torch.tensor([[True, True, True], [True, True, False]])
    dist = MaskedCategorical(logits, legal, 1.3)
    values = torch.stack([dist.entropy(), dist.gather(torch.ones(2, 1))[:, 0], dist.probs[:, 1]])
    assert values[:, 0].isnan().all()
    assert values[:, 1].isfinite().all()


def test_sampled_frequencies_agree_with_the_probabilities() -> None:
    logits, legal = random_case(8, rows=3)
    dist = MaskedCategorical(logits, legal, 1.3)
    draws = 40_000
    slots = dist.sample(draws, torch.Generator().manual_seed(0))
    counts = torch.zeros(3, 9).scatter_add_(1, slots, torch.ones(3, draws))
    expected = dist.probs * draws
    spread = (draws * dist.probs * (1 - dist.probs)).sqrt()
    assert ((counts - expected).abs() <= 5 * spread + 1e-9).all()
    assert (counts[~legal] == 0).all()


def test_slots_of_zero_probability_are_never_sampled() -> None:
    logits = torch.tensor([[-1e9, 0.0, -1e9, 0.0, -1e9, 5.0]])
    legal = torch.tensor([[True, True, True, True, True, False]])
    slots = MaskedCategorical(logits, legal, 1.0).sample(20_000, torch.Generator().manual_seed(1))
    assert set(slots.unique().tolist()) == {1, 3}


def test_the_same_generator_seed_gives_the_same_samples() -> None:
    dist = MaskedCategorical(*random_case(5), 1.0)
    first = dist.sample(16, torch.Generator().manual_seed(7))
    assert torch.equal(first, dist.sample(16, torch.Generator().manual_seed(7)))
    assert not torch.equal(first, dist.sample(16, torch.Generator().manual_seed(8)))


def test_half_precision_logits_are_normalised_in_float32() -> None:
    logits, legal = random_case(6)
    half = logits.bfloat16()
    dist = MaskedCategorical(half, legal, 1.0)
    assert dist.logprobs.dtype == torch.float32
    torch.testing.assert_close(dist.probs, MaskedCategorical(half.float(), legal, 1.0).probs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert MaskedCategorical(half, legal, 1.0).entropy().dtype == torch.float32


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_that_is_not_positive_is_refused_with_value_and_remedy(
    temperature: float,
) -> None:
    with pytest.raises(ValueError, match=rf"temperature is {temperature}.*set temperature > 0"):
        MaskedCategorical(torch.zeros(2), torch.ones(2, dtype=torch.bool), temperature)


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(1, 2\).*\(2,\)"):
        MaskedCategorical(torch.zeros(1, 2), torch.ones(2, dtype=torch.bool), 1.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounded_log_probabilities_are_those_of_a_coarse_softmax_and_carry_a_gradient(
    dtype: torch.dtype,
) -> None:
    logits, legal = random_case(3)
    logits = logits.float().requires_grad_()
    exact = MaskedCategorical(logits, legal, 1.3)
    rounded = MaskedCategorical(logits, legal, 1.3, logprob_dtype=dtype)
    assert rounded.logprobs.dtype == torch.float32
    assert torch.equal(rounded.logprobs, exact.logprobs.to(dtype).float())
    assert not torch.equal(rounded.logprobs, exact.logprobs)
    (gradient,) = torch.autograd.grad(rounded.gather(torch.zeros(5, 1)).sum(), logits)
    assert torch.isfinite(gradient).all() and (gradient[~legal] == 0).all()
    assert (gradient != 0).any()
