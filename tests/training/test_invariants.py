"""The gaps between sampler and learner are measured as they are; causes: test_preflight_causes.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from algorithms.core.batch import RolloutBatch
from algorithms.grpo import GRPO
from algorithms.training.invariants import measure_step0
from algorithms.training.policy import PolicyNet

PolicyOf = Callable[..., PolicyNet]
RolloutOf = Callable[..., RolloutBatch]
CONTROLS = GRPO().controls()


@pytest.mark.parametrize("form", ["positions", "games"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_equal_weights_and_temperature_agree_in_everything(
    policy_of: PolicyOf, rollout_of: RolloutOf, form: str, temperature: float
) -> None:
    step0 = measure_step0(policy_of(), rollout_of(form, temperature), CONTROLS)
    assert step0.agree
    assert step0.metrics["step0/ratio_error"] < 1e-5
    assert step0.metrics["step0/clip_fraction"] == 0
    assert step0.metrics["step0/kl_old"] < 1e-5
    assert step0.metrics["step0/entropy_excess"] <= 1e-5
    assert step0.metrics["step0/log_odds_slope"] == pytest.approx(1.0, abs=1e-4)


def test_a_learner_at_another_temperature_has_the_ratio_of_the_two_as_its_slope(
    policy_of: PolicyOf, rollout_of: RolloutOf
) -> None:
    batch = dataclasses.replace(rollout_of(temperature=1.3), temperature=1.0)
    step0 = measure_step0(policy_of(), batch, CONTROLS)
    assert not step0.agree
    assert step0.metrics["step0/log_odds_slope"] == pytest.approx(1.3, abs=1e-4)


@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-5])
def test_the_slope_finds_a_temperature_fault_where_no_ratio_does(
    policy_of: PolicyOf, rollout_of: RolloutOf, scale: float
) -> None:
    batch = rollout_of(temperature=1.0)
    policy = policy_of()
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
    step0 = measure_step0(policy, batch, CONTROLS)
    assert step0.metrics["step0/clip_fraction"] == 0
    assert step0.same_temperature_refuted and not step0.agree
    assert step0.metrics["step0/log_odds_slope"] == pytest.approx(1.5, abs=0.05)


def test_a_policy_without_any_log_odds_has_no_slope_to_judge(
    policy_of: PolicyOf, rollout_of: RolloutOf
) -> None:
    batch = rollout_of()
    even = torch.where(batch.legal_ids >= 0, 0.0, -torch.inf).log_softmax(-1)
    batch = dataclasses.replace(
        batch, old_legal_logprobs=even, old_logprobs=even.gather(-1, batch.slots)
    )
    policy = policy_of(spread=0.0)
    with torch.no_grad():
        policy.to_vector.weight.zero_()
        policy.to_vector.bias.zero_()
    step0 = measure_step0(policy, batch, CONTROLS)
    assert step0.slope_resolution == torch.inf and step0.agree


def test_weights_that_changed_since_the_rollout_do_not_agree(
    policy_of: PolicyOf, rollout_of: RolloutOf
) -> None:
    batch, policy = rollout_of(), policy_of()
    with torch.no_grad():
        policy.action_bias.add_(
            1e-3 * torch.randn(1858, generator=torch.Generator().manual_seed(0))
        )
    assert not measure_step0(policy, batch, CONTROLS).agree


def test_an_undefined_logprob_is_no_equality(policy_of: PolicyOf, rollout_of: RolloutOf) -> None:
    batch = rollout_of()
    batch.old_logprobs[0, 0, 0] = torch.nan
    assert not measure_step0(policy_of(), batch, CONTROLS).agree
