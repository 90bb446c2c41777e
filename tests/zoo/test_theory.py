"""What one small step does to the entropy of a softmax policy, in float64.

For z' = z + eta u, any u: H' - H = -eta Cov(log pi, u) / T + O(eta^2). Natural gradient: u = A.
Vanilla policy gradient: u = pi A with E[A] = 0.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical
from algorithms.core.losses import score_function
from algorithms.regularization import Regularizer, RegularizerConfig
from tests.regularization.penalty import penalty_of
from tests.regularization.regularizer_cases import flat_batch

NUM_LEGAL = (20, 218)  # the initial position, and the most that any position has
TEMPERATURES = (1.0, 1.3)
PADDING = 3


def random_state(num_legal: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """(logits, legal, returns) `[1, L]` of one state; the last slots are illegal."""
    generator = torch.Generator().manual_seed(seed)
    logits, returns = torch.randn(2, 1, num_legal + PADDING, generator=generator).double()
    return 1.5 * logits, torch.arange(num_legal + PADDING)[None] < num_legal, returns


def centred(dist: MaskedCategorical, values: Tensor) -> Tensor:
    """Values minus their expectation under the policy; 0 on illegal slots."""
    mean = (dist.probs * values).sum(-1, keepdim=True)
    return torch.where(dist.legal, values - mean, 0.0)


def predicted(dist: MaskedCategorical, step: Tensor) -> Tensor:
    """-Cov(log pi, step) / T over the legal moves: the first-order change of the entropy."""
    logprobs = torch.where(dist.legal, dist.logprobs, 0.0)
    return -(dist.probs * centred(dist, logprobs) * step).sum(-1) / dist.temperature


def error(logits: Tensor, legal: Tensor, temperature: float, step: Tensor) -> float:
    """|measured - predicted| change of the entropy for one step of the logits."""
    before = MaskedCategorical(logits, legal, temperature)
    after = MaskedCategorical(logits + step, legal, temperature)
    return float((after.entropy() - before.entropy() - predicted(before, step)).abs())


def policy_gradient(dist: MaskedCategorical, returns: Tensor) -> Tensor:
    return dist.probs * centred(dist, returns) / dist.temperature


def natural_gradient(dist: MaskedCategorical, returns: Tensor) -> Tensor:
    return centred(dist, returns)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("num_legal", NUM_LEGAL)
@pytest.mark.parametrize("direction", [policy_gradient, natural_gradient])
def test_the_covariance_predicts_the_entropy_change_to_second_order(
    direction: Callable[[MaskedCategorical, Tensor], Tensor], num_legal: int, temperature: float
) -> None:
    logits, legal, returns = random_state(num_legal)
    dist = MaskedCategorical(logits, legal, temperature)
    step = direction(dist, returns)
    assert float(predicted(dist, step).abs()) > 1e-4
    errors = [error(logits, legal, temperature, eta * step) for eta in (0.1, 0.01, 0.001)]
    assert 80 < errors[0] / errors[1] < 120
    assert 80 < errors[1] / errors[2] < 120


@pytest.mark.parametrize("direction", [policy_gradient, natural_gradient])
def test_a_forced_move_has_no_entropy_to_change(
    direction: Callable[[MaskedCategorical, Tensor], Tensor],
) -> None:
    logits, legal, returns = random_state(1)
    dist = MaskedCategorical(logits, legal, 1.0)
    step = direction(dist, returns)
    assert (step == 0).all()
    assert predicted(dist, step) == 0
    assert error(logits, legal, 1.0, step) == 0


def test_rewarding_what_is_likely_lowers_entropy_and_what_is_unlikely_raises_it() -> None:
    logits, legal, _ = random_state(20)
    dist = MaskedCategorical(logits, legal, 1.0)
    surprise = centred(dist, torch.where(legal, -dist.logprobs, 0.0))
    for sign in (1.0, -1.0):
        step = 1e-3 * policy_gradient(dist, sign * surprise)
        after = MaskedCategorical(logits + step, legal, 1.0)
        assert sign * float(after.entropy() - dist.entropy()) > 0


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("num_legal", [1, *NUM_LEGAL])
def test_the_exact_bonus_has_the_gradient_of_the_entropy_where_illegal_logits_are_infinite(
    num_legal: int, temperature: float
) -> None:
    logits, legal, _ = random_state(num_legal, seed=2)
    logits = logits.masked_fill(~legal, -torch.inf).requires_grad_()
    batch = flat_batch(torch.zeros_like(logits), legal, torch.zeros(1, 1, dtype=torch.int64))
    dist = MaskedCategorical(logits, legal, temperature)
    regularizer = Regularizer(RegularizerConfig(ent_coef=1.0), temperature)
    loss, _ = penalty_of(regularizer, dist, batch, torch.zeros(1, 1, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    logprobs = torch.where(legal, dist.logprobs, 0.0)
    expected = -dist.probs * (logprobs + dist.entropy()) / temperature  # of the entropy
    torch.testing.assert_close(-gradient, expected, rtol=1e-10, atol=1e-15)
    assert (gradient[~legal] == 0).all()


def test_one_legal_move_has_entropy_zero_and_zero_gradients_under_every_term() -> None:
    logits, legal, _ = random_state(1, seed=3)
    logits.requires_grad_()
    slots, ones = torch.zeros(1, 4, dtype=torch.int64), torch.ones_like(logits)
    batch = flat_batch(torch.zeros_like(logits), legal, slots, ref_logits=ones)
    dist = MaskedCategorical(logits, legal, batch.temperature)
    assert dist.entropy() == 0
    advantages = torch.tensor([[1.0, -2.0, 3.0, 0.0]], dtype=torch.float64)
    for entropy, kl in (("exact", "exact"), ("sampled", "weighted_k3"), ("sampled", "k2")):
        kinds = {"ent_estimator": entropy, "kl_old_estimator": kl, "kl_ref_estimator": kl}
        weights = dict.fromkeys(("ent_coef", "kl_old_coef", "kl_ref_coef", "kl_cov_coef"), 1.0)
        loss, _ = penalty_of(
            Regularizer(RegularizerConfig(**kinds | weights), 1.0), dist, batch, advantages
        )
        surrogate = score_function(dist.gather(batch.slots), advantages).sum()
        (gradient,) = torch.autograd.grad(loss.sum() + surrogate, logits, retain_graph=True)
        assert loss == 0
        assert (gradient == 0).all()
