from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import Regularizer, RegularizerConfig


def case(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(logits requiring a gradient, legal, old logprobs, reference logprobs), float64."""
    generator = torch.Generator().manual_seed(seed)
    logits, old, ref = torch.randn(3, 4, 6, generator=generator, dtype=torch.float64)
    legal = torch.arange(6) < torch.tensor([[6], [5], [2], [1]])
    old_logprobs = MaskedCategorical(old, legal, 1.2).logprobs
    ref_logprobs = MaskedCategorical(ref, legal, 1.2).logprobs
    return logits.requires_grad_(), legal, old_logprobs, ref_logprobs


def test_the_loss_is_minus_entropy_plus_the_two_divergences() -> None:
    logits, legal, old, ref = case()
    dist = MaskedCategorical(logits, legal, 1.2)
    config = RegularizerConfig(ent_coef=0.1, kl_old_coef=0.2, kl_ref_coef=0.3)
    loss, parts = Regularizer(config).loss(dist, old, ref)
    torch.testing.assert_close(
        loss, -0.1 * dist.entropy() + 0.2 * dist.kl(old) + 0.3 * dist.kl(ref)
    )
    torch.testing.assert_close(parts["reg/entropy"], dist.entropy())
    torch.testing.assert_close(parts["reg/kl_old"], dist.kl(old))
    torch.testing.assert_close(parts["reg/kl_ref"], dist.kl(ref))
    weighted = sum(value for name, value in parts.items() if name.endswith("_weighted"))
    torch.testing.assert_close(weighted, loss.detach())
    assert not any(value.requires_grad for value in parts.values())


def test_the_gradient_is_exact() -> None:
    logits, legal, old, ref = case(1)
    regularizer = Regularizer(RegularizerConfig(ent_coef=0.1, kl_old_coef=0.2, kl_ref_coef=0.3))

    def loss(z: Tensor) -> Tensor:
        return regularizer.loss(MaskedCategorical(z, legal, 1.2), old, ref)[0]

    assert torch.autograd.gradcheck(loss, (logits,))


def test_raw_parts_are_reported_even_with_zero_coefficients() -> None:
    logits, legal, old, ref = case(2)
    loss, parts = Regularizer(RegularizerConfig()).loss(
        MaskedCategorical(logits, legal, 1.2), old, ref
    )
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert (gradient == 0).all()
    assert parts["reg/entropy"][0] > 0
    assert parts["reg/kl_old"][0] > 0
    assert (parts["reg/kl_ref_weighted"] == 0).all()


def test_a_forced_position_contributes_nothing() -> None:
    logits, legal, old, ref = case(3)
    config = RegularizerConfig(ent_coef=1, kl_old_coef=1, kl_ref_coef=1)
    loss, _ = Regularizer(config).loss(MaskedCategorical(logits, legal, 1.2), old, ref)
    assert loss[3] == 0


def test_ascent_on_the_entropy_bonus_ends_at_the_uniform_policy() -> None:
    logits, legal, old, _ = case(4)
    regularizer = Regularizer(RegularizerConfig(ent_coef=1.0))
    optimizer = torch.optim.SGD([logits], lr=1.0)
    for _ in range(600):
        optimizer.zero_grad()
        regularizer.loss(MaskedCategorical(logits, legal, 1.2), old, None)[0].sum().backward()
        optimizer.step()
    entropy = MaskedCategorical(logits, legal, 1.2).entropy()
    torch.testing.assert_close(entropy, legal.sum(-1).double().log(), atol=1e-4, rtol=0)


def test_the_entropy_weight_moves_linearly_with_progress_and_survives_a_checkpoint() -> None:
    regularizer = Regularizer(RegularizerConfig(ent_coef=0.2, ent_coef_final=0.1))
    for progress, expected in ((0.0, 0.2), (0.5, 0.15), (1.0, 0.1)):
        regularizer.update(progress)
        assert regularizer.ent_coef == pytest.approx(expected)
    regularizer.update(0.25)
    restored = Regularizer(regularizer.config)
    restored.load_state_dict(regularizer.state_dict())
    assert restored.ent_coef == regularizer.ent_coef
    constant = Regularizer(RegularizerConfig(ent_coef=0.2))
    constant.update(1.0)
    assert constant.ent_coef == 0.2
    with pytest.raises(ValueError, match=r"progress is 1\.5"):
        constant.update(1.5)


def test_a_reference_penalty_without_a_reference_is_refused() -> None:
    logits, legal, old, _ = case(5)
    regularizer = Regularizer(RegularizerConfig(kl_ref_coef=0.5))
    assert regularizer.needs_reference
    with pytest.raises(ValueError, match=r"kl_ref_coef is 0\.5.*with_reference"):
        regularizer.loss(MaskedCategorical(logits, legal, 1.2), old, None)


@pytest.mark.parametrize("name", ["ent_coef", "ent_coef_final", "kl_old_coef", "kl_ref_coef"])
@pytest.mark.parametrize("value", [-0.1, math.nan])
def test_negative_coefficients_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{name} is {value}"):
        RegularizerConfig(**{name: value})
