"""The entropy of the regularised optimum: closed form against ascent, and when it is claimed."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from algorithms import PRESETS
from algorithms.diagnostics.probe_metrics import (
    entropy,
    has_closed_optimum,
    optimum_logprobs,
    pulls_to_optimum,
)
from algorithms.diagnostics.update_diagnostics import PolicyProbe
from algorithms.networks.policy_net import PolicyNet
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.regularization.controllers import terms_of
from tests.small import CPU, make_policy


def problem(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(reference log-probabilities, rewards, legal) of 5 states with 2 to 12 moves."""
    rng = np.random.default_rng(seed)
    legal = np.arange(12) < np.array([2, 3, 5, 8, 12])[:, None]
    logits = np.where(legal, rng.normal(size=legal.shape), -np.inf)
    reference = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return reference, np.where(legal, rng.uniform(-1, 1, legal.shape), 0.0), legal


def ascended(
    reference: np.ndarray, rewards: np.ndarray, legal: np.ndarray, beta: float, bonus: float
) -> np.ndarray:
    """Probabilities after natural-gradient ascent on E[R] - beta KL(pi || ref) + bonus H(pi).

    Float64, from random logits; the gradient is autograd's. Every step of a third of the way leaves
    two thirds of the distance to the top.
    """
    ref, reward, mask = (torch.from_numpy(array) for array in (reference, rewards, legal))
    ref = ref.masked_fill(~mask, 0.0)
    logits = torch.randn(
        mask.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    for _ in range(120):
        logits.requires_grad_()
        logprobs = logits.masked_fill(~mask, -1e9).log_softmax(-1)
        probs, logs = logprobs.exp(), torch.where(mask, logprobs, 0.0)
        value = (probs * (reward - beta * (logs - ref) - bonus * logs)).sum()
        (gradient,) = torch.autograd.grad(value, logits)
        natural = torch.where(mask, gradient / probs, 0.0)
        logits = (logits + natural / (3 * (beta + bonus))).detach()
    return logits.masked_fill(~mask, -math.inf).softmax(-1).numpy()


@pytest.mark.parametrize(("beta", "bonus"), [(1.0, 0.0), (0.2, 0.0), (0.2, 0.3), (0.05, 0.1)])
def test_the_closed_form_is_where_a_numerical_maximiser_ends(beta: float, bonus: float) -> None:
    reference, rewards, legal = problem()
    found = optimum_logprobs(reference, rewards, legal, kl_ref_coef=beta, ent_coef=bonus)
    expected = ascended(reference, rewards, legal, beta, bonus)
    np.testing.assert_allclose(np.exp(found), expected, atol=1e-12)
    assert (np.exp(found)[~legal] == 0).all()
    np.testing.assert_allclose(np.exp(found).sum(-1), 1.0, atol=1e-14)


def test_two_moves_give_the_optimum_worked_out_by_hand() -> None:
    # ref = (1/4, 3/4), R = (ln 9, 0), beta = 1: pi ~ (9/4, 3/4) = (3/4, 1/4).
    legal = np.ones((1, 2), bool)
    reference = np.log(np.array([[0.25, 0.75]]))
    rewards = np.array([[math.log(9), 0.0]])
    plain = optimum_logprobs(reference, rewards, legal, kl_ref_coef=1.0, ent_coef=0.0)
    assert np.exp(plain)[0].tolist() == pytest.approx([0.75, 0.25])
    # With a bonus of 1 too the square roots of (9/4, 3/4): odds sqrt 3 instead of 3.
    both = optimum_logprobs(reference, rewards, legal, kl_ref_coef=1.0, ent_coef=1.0)
    assert math.exp(both[0, 0] - both[0, 1]) == pytest.approx(math.sqrt(3))


def test_a_weak_anchor_ends_at_the_best_move_and_a_strong_one_at_the_reference() -> None:
    reference, rewards, legal = problem()
    sharp = optimum_logprobs(reference, rewards, legal, kl_ref_coef=1e-6, ent_coef=0.0)
    best = np.where(legal, rewards, -np.inf).argmax(-1)
    assert (sharp.argmax(-1) == best).all() and entropy(sharp, legal).max() < 1e-6
    anchored = optimum_logprobs(reference, rewards, legal, kl_ref_coef=1e9, ent_coef=0.0)
    np.testing.assert_allclose(anchored[legal], reference[legal], atol=1e-8)
    shifted = optimum_logprobs(
        reference, rewards + np.where(legal, 3.0, 0.0), legal, kl_ref_coef=0.1, ent_coef=0.0
    )
    same = optimum_logprobs(reference, rewards, legal, kl_ref_coef=0.1, ent_coef=0.0)
    np.testing.assert_allclose(shifted[legal], same[legal], atol=1e-12)


def test_without_a_kl_the_optimum_is_the_softmax_of_the_rewards_over_the_bonus() -> None:
    reference, rewards, legal = problem()
    unknown = np.full_like(reference, -np.inf)  # it is not read
    found = optimum_logprobs(unknown, rewards, legal, kl_ref_coef=0.0, ent_coef=0.5)
    weights = np.where(legal, np.exp(2 * rewards), 0.0)
    wanted = weights / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(np.exp(found), wanted, atol=1e-12)


def test_which_presets_pay_in_reward_units() -> None:
    scaled = {name for name, (each, _) in PRESETS.items() if not each.needs().reward_units}
    assert scaled >= {"grpo", "dapo", "ppo", "ppo_one_ply", "gspo", "maxrl", "flowrl"}
    assert not scaled & {"dr_grpo", "rloo", "delightful_pg", "dppo", "sapo", "repo"}
    plain = dataclasses.replace(PRESETS["ppo_one_ply"][0], normalize_advantages=False)  # type: ignore[type-var]
    assert plain.needs().reward_units


@pytest.mark.parametrize(
    ("settings", "closed"),
    [
        ({}, False),
        ({"kl_ref_coef": 0.1}, True),
        ({"kl_ref_coef": 0.1, "ent_coef": 0.1, "kl_old_coef": 0.1}, True),
        ({"kl_ref_coef": 0.1, "kl_ref_estimator": "weighted_k3"}, True),
        ({"kl_ref_coef": 0.1, "kl_ref_estimator": "k2"}, True),
        ({"kl_ref_coef": 0.1, "kl_ref_estimator": "k1"}, False),
        ({"kl_ref_coef": 0.1, "kl_ref_estimator": "k3"}, False),
        ({"kl_ref_coef": 0.1, "kl_ref_estimator": "k1", "kl_ref_placement": "reward"}, True),
        ({"kl_ref_coef": 0.1, "kl_ref_estimator": "k2", "kl_ref_placement": "reward"}, False),
        ({"kl_ref_coef": 0.1, "kl_ref_estimator": "k3", "kl_ref_placement": "reward"}, False),
        ({"kl_ref_coef": 0.1, "ent_coef": 0.1, "ent_estimator": "sampled"}, False),
        ({"kl_ref_coef": 0.1, "repo_coef": 0.1}, False),
        ({"kl_ref_coef": 0.1, "kl_cov_coef": 0.1}, False),
    ],
)
def test_an_optimum_is_claimed_only_where_nothing_else_pulls(
    settings: dict[str, object], closed: bool
) -> None:
    assert has_closed_optimum(terms_of(RegularizerConfig(**settings))) is closed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "pulls"),
    [
        ({}, False),
        ({"ent_coef": 0.1}, True),
        ({"ent_coef": 0.1, "ent_estimator": "sampled"}, False),
        ({"ent_coef": 0.1, "repo_coef": 0.1}, False),
        ({"kl_ref_coef": 0.1}, True),
        ({"kl_old_coef": 0.1}, False),
    ],
)
def test_a_bonus_alone_pulls_to_an_optimum_too(settings: dict[str, object], pulls: bool) -> None:
    assert pulls_to_optimum(terms_of(RegularizerConfig(**settings))) is pulls  # type: ignore[arg-type]


def reference_policy() -> PolicyNet:
    return make_policy(seed=3, spread=1.5)


def test_the_metric_is_of_the_coefficients_in_force_and_absent_where_it_means_nothing() -> None:
    probe = PolicyProbe(None, 1.0, CPU)
    algorithm, reference = PRESETS["dr_grpo"][0], reference_policy()
    regularizer = Regularizer(RegularizerConfig(kl_ref_coef=0.1, ent_coef=0.05), 1.0)
    first = probe.optimum(algorithm, regularizer, reference)
    regularizer.state = regularizer.state.moved(kl_ref_coef=0.02, ent_coef=0.0)
    second = probe.optimum(algorithm, regularizer, reference)
    assert set(first) == {"probe/optimum_entropy"}
    assert second["probe/optimum_entropy"] < first["probe/optimum_entropy"]
    assert probe.optimum(PRESETS["grpo"][0], regularizer, reference) == {}
    assert probe.optimum(algorithm, regularizer, None) == {}
    nothing = Regularizer(RegularizerConfig(ent_coef=0.1), 1.0)
    assert probe.optimum(algorithm, nothing, reference) == {}


def test_an_unyielding_anchor_to_a_policy_leaves_that_policy_s_entropy() -> None:
    probe = PolicyProbe(None, 1.3, CPU)
    reference = reference_policy()
    regularizer = Regularizer(RegularizerConfig(kl_ref_coef=1e6), 1.3)
    found = probe.optimum(PRESETS["rloo"][0], regularizer, reference)["probe/optimum_entropy"]
    legal = probe.probes.legal_ids >= 0
    own = entropy(probe.look(reference), legal)[probe.probes.num_legal >= 2].mean()
    assert found == pytest.approx(own, abs=1e-5)
