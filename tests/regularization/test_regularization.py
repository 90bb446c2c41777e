from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.core.distribution import MaskedCategorical
from algorithms.regularization import Regularizer, RegularizerConfig, entropy_and_kl
from algorithms.regularization.kl_cov import highest_covariance, kl_cov
from tests.regularization.penalty import penalty_of
from tests.regularization.regularizer_cases import TEMPERATURE, flat_batch, policy, random_case

ESTIMATORS = ("exact", "k1", "k2", "k3", "weighted_k3")  # those that a reference allows


def regularizer(**settings_: object) -> Regularizer:
    return Regularizer(RegularizerConfig(**settings_), TEMPERATURE)  # type: ignore[arg-type]


def estimated(estimator: str, **settings_: object) -> Regularizer:
    """Entropy and both divergences as this estimator and, unless it is `exact`, samples have them."""
    sampled = "exact" if estimator == "exact" else "sampled"
    weights = {"ent_coef": 0.1, "kl_old_coef": 0.2, "kl_ref_coef": 0.3}
    kinds = {"kl_old_estimator": estimator, "kl_ref_estimator": estimator}
    return regularizer(**{"ent_estimator": sampled} | weights | kinds | settings_)


def test_the_loss_is_minus_entropy_plus_the_two_divergences_bit_for_bit() -> None:
    logits, batch, advantages = random_case()
    dist = policy(logits, batch)
    assert batch.ref_legal_logprobs is not None
    kl_old, kl_ref = dist.kl(batch.old_legal_logprobs), dist.kl(batch.ref_legal_logprobs)
    loss, parts = penalty_of(
        regularizer(ent_coef=0.1, kl_old_coef=0.2, kl_ref_coef=0.3), dist, batch, advantages
    )
    assert torch.equal(loss, -0.1 * dist.entropy() + 0.2 * kl_old + 0.3 * kl_ref)
    assert torch.equal(parts["reg/entropy"], dist.entropy())
    assert torch.equal(parts["reg/kl_old"], kl_old)
    assert torch.equal(parts["reg/kl_ref"], kl_ref)
    weighted = {"entropy": -0.1, "kl_old": 0.2, "kl_ref": 0.3}
    for name, coef in weighted.items():
        assert torch.equal(parts[f"reg/{name}_weighted"], coef * parts[f"reg/{name}"])


def test_the_gradient_of_the_exact_terms_is_exact() -> None:
    logits, batch, advantages = random_case(1)
    reg = regularizer(ent_coef=0.1, kl_old_coef=0.2, kl_ref_coef=0.3)

    def loss(z: Tensor) -> Tensor:
        return penalty_of(reg, policy(z, batch), batch, advantages)[0]

    assert torch.autograd.gradcheck(loss, (logits,))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_exact_values_are_logged_whatever_drives_the_loss(estimator: str) -> None:
    logits, batch, advantages = random_case(2)
    dist = policy(logits, batch)
    reg = estimated(estimator, kl_cov_coef=0.4)
    loss, parts = penalty_of(reg, dist, batch, advantages)
    terms = reg.penalties(dist, batch, advantages)[0]
    assert batch.ref_legal_logprobs is not None
    torch.testing.assert_close(parts["reg/entropy"], dist.entropy())
    torch.testing.assert_close(parts["reg/kl_old"], dist.kl(batch.old_legal_logprobs))
    torch.testing.assert_close(parts["reg/kl_ref"], dist.kl(batch.ref_legal_logprobs))
    assert set(terms) >= {"entropy", "kl_old", "kl_ref", "kl_cov"}
    assert all(term.requires_grad for term in terms.values())
    weighted = {name for name in parts if name.endswith("_weighted")}
    assert weighted >= {f"reg/{name}_weighted" for name in terms}
    torch.testing.assert_close(sum(parts[name] for name in weighted), loss.detach())
    torch.testing.assert_close(sum(terms.values()), loss)
    assert not any(value.requires_grad for value in parts.values())
    used = "reg/kl_old" if estimator == "exact" else f"reg/kl_old_{estimator}"
    torch.testing.assert_close(0.2 * parts[used], parts["reg/kl_old_weighted"])


def test_the_sampled_estimators_agree_with_a_hand_computed_case() -> None:
    # Two moves; the learner has p = (.8, .2), the other policies (.5, .5); both moves were sampled.
    learner = torch.tensor([[0.8, 0.2]], dtype=torch.float64).log()
    legal = torch.ones(1, 2, dtype=torch.bool)
    zeros = torch.zeros_like(learner)
    batch = flat_batch(zeros, legal, torch.tensor([[0, 1]]), ref_logits=zeros, temperature=1.0)
    dist = policy(learner, batch)
    d = [math.log(1.6), math.log(0.4)]
    k3 = [1 / 1.6 - 1 + d[0], 1 / 0.4 - 1 + d[1]]
    expected = {
        "k1": (d[0] + d[1]) / 2,
        "k2": (d[0] ** 2 + d[1] ** 2) / 4,
        "k3": (k3[0] + k3[1]) / 2,
        "weighted_k3": (1.6 * k3[0] + 0.4 * k3[1]) / 2,
        "forward_k1": -(d[0] + d[1]) / 2,
    }
    for name, value in expected.items():
        reg = regularizer(kl_old_coef=2.0, kl_old_estimator=name)
        loss, parts = penalty_of(reg, dist, batch, zeros)
        assert float(loss) == pytest.approx(2 * value)
        assert float(parts[f"reg/kl_old_{name}"]) == pytest.approx(value)
        assert float(parts["reg/kl_old"]) == pytest.approx(0.8 * d[0] + 0.2 * d[1])
    loss, parts = penalty_of(regularizer(ent_coef=2.0, ent_estimator="sampled"), dist, batch, zeros)
    sampled = -(math.log(0.8) + math.log(0.2)) / 2
    assert float(parts["reg/entropy_sampled"]) == pytest.approx(sampled)
    assert float(loss) == pytest.approx(-2 * sampled)


def test_a_state_with_fewer_valid_samples_averages_over_those() -> None:
    logits, batch, advantages = random_case(2)
    dist = policy(logits, batch)
    assert batch.valid[1].tolist() == [True, True, False]
    gap = (dist.gather(batch.slots) - batch.old_logprobs)[1, :2]
    _, parts = penalty_of(
        regularizer(kl_old_coef=1.0, kl_old_estimator="k1"), dist, batch, advantages
    )
    torch.testing.assert_close(parts["reg/kl_old_k1"][1], gap.detach().sum() / 2)
    assert entropy_and_kl.log_gap(dist, batch, batch.old_legal_logprobs)[1, 2] == 0
    assert entropy_and_kl.importance_weight(dist, batch)[1, 2] == 1
    everything = kl_cov(dist, batch, advantages, 1.0)
    torch.testing.assert_close(everything[1], gap.abs().sum() / 2)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_what_padding_holds_changes_neither_value_nor_gradient(estimator: str) -> None:
    logits, batch, advantages = random_case(3)
    reg = estimated(estimator, ent_estimator="sampled", kl_cov_coef=0.4, kl_cov_fraction=0.3)

    def value_and_gradient(slots: Tensor, padding: float) -> tuple[Tensor, Tensor]:
        part = dataclasses.replace(batch, slots=slots)
        loss, _ = penalty_of(
            reg, policy(logits, part), part, advantages.masked_fill(~part.valid, padding)
        )
        return loss, torch.autograd.grad(loss.sum(), logits)[0]

    value, gradient = value_and_gradient(batch.slots, 0.0)
    # Slot 5 of the second state is illegal: its old and reference log-probabilities are -inf.
    moved, moved_gradient = value_and_gradient(batch.slots.masked_fill(~batch.valid, 5), 1e9)
    assert torch.equal(value, moved)
    assert torch.equal(gradient, moved_gradient)
    assert gradient.isfinite().all()
    assert (gradient[~batch.legal] == 0).all()


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), shift=st.floats(-5, 5), estimator=st.sampled_from(ESTIMATORS))
def test_shifting_logits_or_reordering_samples_changes_nothing(
    seed: int, shift: float, estimator: str
) -> None:
    logits, batch, advantages = random_case(seed)
    reg = estimated(estimator, ent_estimator="sampled", kl_cov_coef=0.3)
    loss, parts = penalty_of(reg, policy(logits, batch), batch, advantages)
    order = torch.tensor([2, 0, 1])
    permuted = dataclasses.replace(
        batch,
        slots=batch.slots[:, order],
        old_logprobs=batch.old_logprobs[:, order],
        valid=batch.valid[:, order],
    )
    moved, _ = penalty_of(reg, policy(logits + shift, permuted), permuted, advantages[:, order])
    torch.testing.assert_close(loss, moved)
    assert (parts["reg/kl_old"] >= -1e-12).all()
    assert (parts["reg/entropy"] <= batch.legal.sum(-1).double().log() + 1e-12).all()


def test_nothing_is_weighted_without_coefficients_but_raw_parts_are_logged() -> None:
    logits, batch, advantages = random_case(4)
    loss, parts = penalty_of(regularizer(), policy(logits, batch), batch, advantages)
    assert (loss == 0).all()
    assert not loss.requires_grad
    assert regularizer().penalties(policy(logits, batch), batch, advantages)[0] == {}
    assert parts["reg/entropy"][0] > 0
    assert parts["reg/kl_old"][0] > 0
    assert (parts["reg/kl_ref_weighted"] == 0).all()
    bare = dataclasses.replace(batch, ref_legal_logprobs=None)
    assert "reg/kl_ref" not in penalty_of(regularizer(), policy(logits, bare), bare, advantages)[1]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_forced_position_contributes_nothing(estimator: str) -> None:
    logits, batch, advantages = random_case(5)
    loss, _ = penalty_of(estimated(estimator), policy(logits, batch), batch, advantages)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert loss[3] == 0
    assert (gradient[3] == 0).all()


def test_a_reference_penalty_without_a_reference_is_refused() -> None:
    logits, batch, advantages = random_case(7)
    reg = regularizer(kl_ref_coef=0.5)
    assert reg.needs_reference
    assert not regularizer(kl_old_coef=0.5).needs_reference
    bare = dataclasses.replace(batch, ref_legal_logprobs=None)
    with pytest.raises(ValueError, match=r"kl_ref_coef is 0\.5.*with_reference"):
        penalty_of(reg, policy(logits, bare), bare, advantages)


def test_the_highest_covariance_is_found_among_valid_samples_only() -> None:
    advantages = torch.tensor([[1.0, -1.0], [3.0, -3.0], [9.0, 0.0]])
    logprobs = torch.tensor([[-1.0, -2.0], [-0.5, -2.5], [0.0, 0.0]])
    valid = torch.tensor([[True, True], [True, True], [False, False]])
    # Valid means: A 0, l -1.5; covariances .5, .5, 3.0, 3.0 (and 13.5 at the padding).
    chosen = highest_covariance(logprobs, advantages, valid, 0.5)
    assert chosen.tolist() == [[False, False], [True, True], [False, False]]
    assert highest_covariance(logprobs, advantages, valid, 1e-4).sum() == 1
    assert not highest_covariance(logprobs, advantages, torch.zeros_like(valid), 0.5).any()


def test_kl_cov_adds_up_to_the_mean_over_samples_where_all_are_valid() -> None:
    logits, batch, advantages = random_case(8)
    batch = dataclasses.replace(batch, valid=torch.ones_like(batch.valid))
    dist = policy(logits, batch)
    chosen = highest_covariance(dist.gather(batch.slots), advantages, batch.valid, 0.25)
    gap = (dist.gather(batch.slots) - batch.old_logprobs).abs()
    per_state = kl_cov(dist, batch, advantages, 0.25)
    assert chosen.sum() == 3  # a quarter of 12
    torch.testing.assert_close(per_state.mean(), torch.where(chosen, gap, 0.0).mean())
    loss, parts = penalty_of(
        regularizer(kl_cov_coef=0.5, kl_cov_fraction=0.25), dist, batch, advantages
    )
    torch.testing.assert_close(loss, 0.5 * per_state)
    torch.testing.assert_close(parts["reg/kl_cov"], per_state.detach())


def test_kl_cov_has_no_gradient_until_the_learner_has_left_the_sampler() -> None:
    logits, batch, advantages = random_case(9)
    same = torch.zeros_like(logits).requires_grad_()
    here = flat_batch(same, batch.legal, batch.slots, valid=batch.valid)
    (gradient,) = torch.autograd.grad(kl_cov(policy(same, here), here, advantages, 1.0).sum(), same)
    assert (gradient == 0).all()
    (gradient,) = torch.autograd.grad(
        kl_cov(policy(logits, batch), batch, advantages, 1.0).sum(), logits
    )
    assert (gradient[0] != 0).any()


@pytest.mark.parametrize(("gap", "acts"), [(2e-7, False), (3e-5, False), (1e-3, True)])
def test_a_gap_that_rounding_made_gives_kl_cov_no_gradient(gap: float, acts: bool) -> None:
    logits, batch, advantages = random_case(9)
    logits = logits.detach().float().requires_grad_()
    dist = policy(logits, batch)
    old = dist.logprobs.detach()
    shifted = dataclasses.replace(batch, old_legal_logprobs=old - gap)
    (gradient,) = torch.autograd.grad(kl_cov(dist, shifted, advantages, 1.0).sum(), logits)
    assert bool(gradient.any()) == acts


def test_the_value_does_not_depend_on_who_asks() -> None:
    logits, batch, advantages = random_case(10)
    reg = regularizer(ent_coef=0.1, kl_old_coef=0.2)
    dist: MaskedCategorical = policy(logits, batch)
    first = penalty_of(reg, dist, batch, advantages)[0]
    reg.penalties(dist, batch, advantages)[0]
    assert torch.equal(first, penalty_of(reg, dist, batch, -3 * advantages)[0])
