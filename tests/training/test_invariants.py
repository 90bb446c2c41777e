"""The gaps between sampler and learner are measured as they are; causes: test_preflight_causes.py."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from algorithms.grpo import GRPO
from algorithms.networks.build import build_policy
from algorithms.networks.settings import NetworkConfig
from algorithms.training.preflight import repeat_error, sampler_gap
from tests.small import make_batch, make_policy

CONTROLS = GRPO().controls()


@pytest.mark.parametrize("form", ["positions", "games"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_equal_weights_and_temperature_agree_in_everything(form: str, temperature: float) -> None:
    step0 = sampler_gap(make_policy(), make_batch(form, temperature), CONTROLS)
    assert step0["step0/ratio_error"] < 1e-5
    assert step0["step0/clip_fraction"] == 0
    assert step0["step0/kl_old"] < 1e-5
    assert step0["step0/log_odds_slope"] == pytest.approx(1.0, abs=1e-4)
    assert step0["step0/log_odds_residual"] < 1e-5


def test_a_learner_at_another_temperature_has_the_ratio_of_the_two_as_its_slope() -> None:
    batch = dataclasses.replace(make_batch(temperature=1.3), temperature=1.0)
    step0 = sampler_gap(make_policy(), batch, CONTROLS)
    assert step0["step0/log_odds_slope"] == pytest.approx(1.3, abs=1e-4)
    assert step0["step0/log_odds_residual"] < 1e-5


@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-5])
def test_the_slope_finds_a_temperature_fault_where_no_ratio_does(scale: float) -> None:
    batch = make_batch(temperature=1.0)
    policy = make_policy()
    with torch.no_grad():
        policy.to_vector.weight.zero_()
        policy.to_vector.bias.zero_()
        policy.action_bias.mul_(scale)
        logits = policy(batch.obs.flatten(0, 1), batch.legal_ids.flatten(0, 1))
    legal = batch.legal_ids >= 0
    scaled = logits.reshape(legal.shape).masked_fill(~legal, -torch.inf) / 1.5
    legal_logprobs = scaled.log_softmax(-1)
    batch = dataclasses.replace(
        batch,
        old_legal_logprobs=legal_logprobs,
        old_logprobs=legal_logprobs.gather(-1, batch.slots),
    )
    step0 = sampler_gap(policy, batch, CONTROLS)
    assert step0["step0/clip_fraction"] == 0
    assert step0["step0/log_odds_slope"] == pytest.approx(1.5, abs=0.05)


def test_a_policy_without_any_log_odds_has_no_slope_to_judge() -> None:
    batch = make_batch()
    even = torch.where(batch.legal_ids >= 0, 0.0, -torch.inf).log_softmax(-1)
    batch = dataclasses.replace(
        batch, old_legal_logprobs=even, old_logprobs=even.gather(-1, batch.slots)
    )
    policy = make_policy(spread=0.0)
    with torch.no_grad():
        policy.to_vector.weight.zero_()
        policy.to_vector.bias.zero_()
    step0 = sampler_gap(policy, batch, CONTROLS)
    assert step0["step0/log_odds_slope"] == 1
    assert step0["step0/log_odds_residual"] < 1e-6


def test_weights_that_changed_since_the_rollout_do_not_agree() -> None:
    batch, policy = make_batch(), make_policy()
    with torch.no_grad():
        policy.action_bias.add_(
            1e-3 * torch.randn(1858, generator=torch.Generator().manual_seed(0))
        )
    assert sampler_gap(policy, batch, CONTROLS)["step0/log_odds_residual"] > 1e-4


def test_an_undefined_logprob_is_no_equality() -> None:
    batch = make_batch()
    batch.old_logprobs[0, 0, 0] = torch.nan
    assert math.isnan(sampler_gap(make_policy(), batch, CONTROLS)["step0/ratio_error"])


def test_the_residual_is_what_a_fitted_line_leaves_of_the_log_odds() -> None:
    policy, batch = make_policy(), make_batch()
    noise = torch.randn(batch.old_legal_logprobs.shape, generator=torch.Generator().manual_seed(0))
    sampler = (0.7 * batch.old_legal_logprobs + 0.3 * noise).log_softmax(-1)
    changed = dataclasses.replace(
        batch, old_legal_logprobs=sampler, old_logprobs=sampler.gather(-1, batch.slots)
    )
    metrics = sampler_gap(policy, changed, CONTROLS)
    pairs = []
    for x, y in zip(
        sampler.flatten(0, 1).double().numpy(),
        batch.old_legal_logprobs.flatten(0, 1).double().numpy(),  # the same weights' own
        strict=True,
    ):
        legal = np.isfinite(x)
        pairs.append(np.stack([x[legal] - x[legal].mean(), y[legal] - y[legal].mean()]))
    x, y = np.concatenate(pairs, axis=1)
    slope = np.linalg.lstsq(x[:, None], y, rcond=None)[0][0]
    residual = np.sqrt(np.mean((y - slope * x) ** 2))
    assert residual > 0.1
    assert metrics["step0/log_odds_slope"] == pytest.approx(slope, rel=1e-5)
    assert metrics["step0/log_odds_residual"] == pytest.approx(residual, rel=1e-5)


def test_only_what_is_drawn_at_random_makes_a_pass_differ_from_the_next() -> None:
    config = NetworkConfig(network="resnet", channels=16, blocks=1, head_dim=8, dropout=0.1)
    policy, batch = build_policy(config, seed=0, device=torch.device("cpu")).eval(), make_batch()
    assert repeat_error(policy, batch) == 0
    assert repeat_error(policy.train(), batch) > 1e-3
    assert policy.training
    plain = dataclasses.replace(config, dropout=0.0)
    assert repeat_error(build_policy(plain, seed=0, device=torch.device("cpu")), batch) == 0


def test_dropout_in_the_rollout_alone_leaves_a_residual() -> None:
    config = NetworkConfig(network="resnet", channels=16, blocks=1, head_dim=8, dropout=0.1)
    policy, batch = build_policy(config, seed=0, device=torch.device("cpu")), make_batch()
    with torch.no_grad():
        seen = policy.outputs(batch.obs.flatten(0, 1), batch.legal_ids.flatten(0, 1), 1.0)
    sampler = seen.dist.logprobs.reshape(batch.old_legal_logprobs.shape)
    sampled = dataclasses.replace(
        batch, old_legal_logprobs=sampler, old_logprobs=sampler.gather(-1, batch.slots)
    )
    assert sampler_gap(policy.eval(), sampled, CONTROLS)["step0/log_odds_residual"] > 1e-3
