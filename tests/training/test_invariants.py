from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from algorithms.core.batch import RolloutBatch
from algorithms.grpo import GRPO
from algorithms.training.invariants import InvariantError, check_step0
from algorithms.training.policy import PolicyNet, build_policy

PolicyOf = Callable[..., PolicyNet]
RolloutOf = Callable[..., RolloutBatch]
CONTROLS = GRPO().controls()


@pytest.mark.parametrize("form", ["positions", "games"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_equal_weights_and_temperature_satisfy_every_invariant(
    policy_of: PolicyOf, rollout_of: RolloutOf, form: str, temperature: float
) -> None:
    measured = check_step0(policy_of(), rollout_of(form, temperature), controls=CONTROLS)
    assert measured["step0/ratio_error"] < 1e-5
    assert measured["step0/clip_fraction"] == 0
    assert measured["step0/kl_old"] < 1e-5
    assert measured["step0/entropy_excess"] <= 1e-5
    assert measured["step0/log_odds_slope"] == pytest.approx(1.0, abs=1e-4)


def test_a_learner_at_another_temperature_is_found_by_the_slope_of_its_log_odds(
    policy_of: PolicyOf, rollout_of: RolloutOf
) -> None:
    batch = dataclasses.replace(rollout_of(temperature=1.3), temperature=1.0)
    with pytest.raises(InvariantError, match=r"1\.300 times.*different temperatures"):
        check_step0(policy_of(), batch, controls=CONTROLS)


def test_the_slope_finds_a_temperature_fault_even_where_nothing_is_clipped(
    policy_of: PolicyOf, rollout_of: RolloutOf
) -> None:
    batch = rollout_of(temperature=1.0)
    policy = policy_of()
    with torch.no_grad():
        policy.action_bias.mul_(0.01)
        logits = policy(batch.obs.flatten(0, 1), batch.legal_ids.flatten(0, 1))
    legal = batch.legal_ids >= 0
    scaled = logits.reshape(legal.shape).masked_fill(~legal, -torch.inf) / 1.5
    legal_logprobs = scaled.log_softmax(-1)
    batch = dataclasses.replace(
        batch,
        old_legal_logprobs=legal_logprobs,
        old_logprobs=legal_logprobs.gather(-1, batch.slots),
    )
    with pytest.raises(InvariantError, match=r"clip_fraction = 0,.*1\.500 times"):
        check_step0(policy, batch, controls=CONTROLS)


def test_weights_that_changed_since_the_rollout_are_found(
    policy_of: PolicyOf, rollout_of: RolloutOf
) -> None:
    batch = rollout_of()
    policy = policy_of(seed=1, spread=0.0)
    with torch.no_grad():
        policy.action_bias.copy_(policy_of().action_bias + 0.01 * torch.randn(1858))
    with pytest.raises(InvariantError, match=r"weights changed.*policy_version 0"):
        check_step0(policy, batch, controls=CONTROLS)


def test_active_dropout_is_named_as_the_cause(policy_of: PolicyOf, rollout_of: RolloutOf) -> None:
    policy = build_policy(
        dataclasses.replace(policy_of().config, dropout=0.1), seed=0, device=torch.device("cpu")
    )
    policy.load_state_dict(policy_of().state_dict())
    batch = rollout_of()
    with pytest.raises(InvariantError, match=r"dropout is active in dropout: call policy.eval"):
        check_step0(policy, batch, controls=CONTROLS)
    check_step0(policy.eval(), batch, controls=CONTROLS)


def test_an_undefined_logprob_is_no_equality(policy_of: PolicyOf, rollout_of: RolloutOf) -> None:
    batch = rollout_of()
    batch.old_logprobs[0, 0, 0] = torch.nan
    with pytest.raises(InvariantError, match=r"ratio_error = nan.*temperature.*too near 0"):
        check_step0(policy_of(), batch, controls=CONTROLS)
