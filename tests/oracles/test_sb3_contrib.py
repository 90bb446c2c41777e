"""The masked distribution against sb3-contrib's, which fills illegal logits with -1e8."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib.common.maskable.distributions import MaskableCategorical
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical

MAX_MOVES = 218
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def random_case(
    seed: int, num_legal: int, dtype: torch.dtype, rows: int = 3
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of spread 2 over a few slots more than are legal, the mask, and one legal slot a row.

    The legal slots lie anywhere, not only in front.
    """
    generator = torch.Generator().manual_seed(seed)
    slots = min(MAX_MOVES, num_legal + 5)
    logits = 2 * torch.randn(rows, slots, generator=generator, dtype=dtype)
    order = torch.stack([torch.randperm(slots, generator=generator) for _ in range(rows)])
    chosen = order[:, :1]
    return (
        logits,
        torch.zeros(rows, slots, dtype=torch.bool).scatter(1, order[:, :num_legal], True),
        chosen,
    )


def make_pair(
    logits: Tensor, legal: Tensor, temperature: float
) -> tuple[MaskedCategorical, MaskableCategorical]:
    theirs = MaskableCategorical(logits=logits / temperature, masks=legal)
    return MaskedCategorical(logits, legal, temperature), theirs


def close(ours: Tensor, theirs: Tensor) -> None:
    tolerance = TOLERANCE[theirs.dtype]
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(
    seed=st.integers(0, 10_000), num_legal=st.integers(1, MAX_MOVES), temperature=st.floats(0.5, 5)
)
@settings(max_examples=40)
def test_log_probabilities_and_entropy_are_those_of_sb3_contrib(
    dtype: torch.dtype, seed: int, num_legal: int, temperature: float
) -> None:
    logits, legal, chosen = random_case(seed, num_legal, dtype)
    ours, theirs = make_pair(logits, legal, temperature)
    close(ours.gather(chosen).squeeze(-1), theirs.log_prob(chosen.squeeze(-1)))
    close(ours.entropy(), theirs.entropy())
    close(ours.probs, theirs.probs)


@pytest.mark.parametrize("dtype", TOLERANCE)
@given(seed=st.integers(0, 10_000), num_legal=st.integers(1, MAX_MOVES))
@settings(max_examples=25)
def test_gradients_of_log_probability_and_entropy_are_those_of_sb3_contrib(
    dtype: torch.dtype, seed: int, num_legal: int
) -> None:
    logits, legal, chosen = random_case(seed, num_legal, dtype)
    logits.requires_grad_()
    ours, theirs = make_pair(logits, legal, 1.3)
    pairs = (
        (ours.gather(chosen).sum(), theirs.log_prob(chosen.squeeze(-1)).sum()),
        (ours.entropy().sum(), theirs.entropy().sum()),
    )
    for mine, other in pairs:
        (own,) = torch.autograd.grad(mine, logits, retain_graph=True)
        (expected,) = torch.autograd.grad(other, logits, retain_graph=True)
        close(own, expected)
        assert (own[~legal] == 0).all()


def test_where_ours_differs_an_illegal_move_has_no_log_probability_at_all() -> None:
    logits, legal, _ = random_case(0, 4, torch.float32)
    ours, theirs = make_pair(logits, legal, 1.0)
    assert ours.logprobs[~legal].isneginf().all()
    assert (theirs.logits[~legal] < -9e7).all() and theirs.logits[~legal].isfinite().all()
