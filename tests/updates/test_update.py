from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.grpo import GRPO
from algorithms.networks.policy_net import PolicyNet
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.updates.learner import NonFiniteError, NonFiniteGuard
from algorithms.updates.training_batch import Targets
from algorithms.updates.update import update
from tests.small import make_batch, make_policy
from tests.updates.learners import learner_of
from tests.updates.recording_algorithm import flat_weights as weights


def run(
    policy: PolicyNet,
    batch: RolloutBatch,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    algorithm: GRPO | None = None,
    advantages: Tensor | None = None,
    **overrides: Any,
) -> dict[str, float]:
    algorithm = algorithm or GRPO(group_size=4)
    config = overrides.pop("config", RegularizerConfig(ent_coef=0.1))
    regularizer = Regularizer(config, batch.temperature)
    learner = learner_of(policy, algorithm, regularizer, optimizer=optimizer, **overrides)
    advantages = algorithm.advantages(batch) if advantages is None else advantages
    return update(learner, batch, Targets(advantages, algorithm.weights(batch)))


def test_one_sgd_step_follows_the_gradient_of_the_loss_written_out() -> None:
    batch, policy = make_batch(temperature=1.3), make_policy()
    algorithm = GRPO(group_size=4)
    advantages = algorithm.advantages(batch)
    flat = batch.flat()
    logits = policy(flat.obs, flat.legal_ids) / 1.3
    log_all = torch.log_softmax(logits.masked_fill(~flat.legal, -1e30), -1)
    ratio = (log_all.gather(1, flat.slots) - flat.old_logprobs).exp()
    entropy = -(log_all.exp() * log_all.masked_fill(~flat.legal, 0.0)).sum(-1)
    loss = -(ratio * batch.flatten(advantages)).mean() - 0.1 * entropy.mean()
    expected = torch.autograd.grad(loss, list(policy.parameters()))
    before = [p.detach().clone() for p in policy.parameters()]

    metrics = run(policy, batch, rate=0.5, minibatch_size=1000)
    assert metrics["train/loss"] == pytest.approx(loss.item(), rel=1e-4)
    for old, new, gradient in zip(before, policy.parameters(), expected, strict=True):
        torch.testing.assert_close(old - new.detach(), 0.5 * gradient, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("form", ["positions", "games"])
def test_without_steps_metrics_do_not_depend_on_the_minibatch_size(form: str) -> None:
    batch, policy = make_batch(form), make_policy()
    whole = run(policy, batch, minibatch_size=1000)
    parts = run(policy, batch, minibatch_size=3)
    # The loss and the gradient norm are per step by definition, the rest are means over samples.
    names = [n for n in whole if n.startswith(("reg/", "policy/", "ratio/", "train/policy_loss"))]
    for name in names:
        if not name.endswith("_first_minibatch"):
            assert parts[name] == pytest.approx(whole[name], rel=1e-4, abs=2e-5), name
    assert parts["train/steps"] == -(-batch.plies // 3)


def test_before_the_first_step_the_ratio_is_one_and_nothing_is_clipped() -> None:
    metrics = run(make_policy(), make_batch(temperature=0.5))
    assert metrics["ratio/mismatch"] < 1e-5
    assert metrics["policy/ratio_out_of_range"] == 0
    assert abs(metrics["reg/kl_old"]) < 1e-6
    assert metrics["ratio/ess"] == pytest.approx(1.0)


def test_later_epochs_leave_the_ratio_at_one_behind() -> None:
    policy, batch = make_policy(), make_batch()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    algorithm = GRPO(group_size=4, update_epochs=4)
    metrics = run(policy, batch, optimizer=optimizer, algorithm=algorithm)
    assert metrics["ratio/std_first_minibatch"] < 1e-5 < metrics["ratio/std"]
    assert metrics["reg/kl_old"] > 1e-5
    assert metrics["train/steps"] == 4 * -(-batch.plies // 5)


def test_samples_that_are_not_valid_have_no_influence() -> None:
    batch = make_batch()
    valid = batch.valid.clone()
    valid[0, 0] = False
    valid[1, 1, 2] = False
    batch = dataclasses.replace(batch, valid=valid)
    advantages = torch.where(valid, GRPO(group_size=4).advantages(batch), 0.0)
    spoiled = torch.where(valid, advantages, torch.nan)
    obs = batch.obs.clone()
    obs[0, 0] = 255
    old_logprobs = torch.where(valid, batch.old_logprobs, torch.nan)
    noisy = dataclasses.replace(batch, obs=obs, old_logprobs=old_logprobs)
    results = []
    for case, case_advantages in ((batch, advantages), (noisy, spoiled)):
        policy = make_policy()
        results.append((run(policy, case, rate=0.1, advantages=case_advantages), policy))
    assert results[0][0] == results[1][0]
    assert torch.equal(weights(results[0][1]), weights(results[1][1]))


def test_a_step_that_is_not_finite_changes_nothing_and_the_third_in_a_row_raises() -> None:
    policy, batch = make_policy(), make_batch()
    before = weights(policy)
    spoiled = torch.full_like(batch.rewards, torch.nan)
    guard = NonFiniteGuard()
    for total in (1, 2):
        optimizer = torch.optim.Adam(policy.parameters(), lr=0.1)
        metrics = run(
            policy, batch, optimizer=optimizer, advantages=spoiled, guard=guard, minibatch_size=1000
        )
        assert metrics["train/skipped_steps"] == 1
        assert metrics["train/steps"] == 0
        assert (guard.in_row, guard.total) == (total, total)
    with pytest.raises(NonFiniteError, match=r"3 updates in a row.*loss nan"):
        run(policy, batch, advantages=spoiled, guard=guard, minibatch_size=1000)
    assert torch.equal(weights(policy), before)


def test_a_good_step_ends_the_row_of_bad_ones_and_bad_ones_stay_out_of_the_means() -> None:
    batch = make_batch()
    advantages = GRPO(group_size=4).advantages(batch)
    advantages[0, 0, 0] = torch.nan
    guard = NonFiniteGuard(in_row=1)
    metrics = run(make_policy(), batch, advantages=advantages, guard=guard, minibatch_size=3)
    assert metrics["train/skipped_steps"] == 1
    assert metrics["train/steps"] == 3
    assert guard.in_row <= 1
    assert all(math.isfinite(value) for value in metrics.values())
    assert NonFiniteGuard(**guard.state_dict()) == guard


def test_the_gradient_is_scaled_down_to_the_maximum_norm() -> None:
    policy, batch = make_policy(), make_batch()
    before = weights(policy)
    metrics = run(policy, batch, rate=1.0, minibatch_size=1000, max_grad_norm=1e-3)
    assert metrics["train/grad_norm"] > 1e-3
    assert (weights(policy) - before).norm().item() == pytest.approx(1e-3, rel=1e-2)


def test_under_reduced_precision_the_learner_relabels_and_reports_the_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch, policy = make_batch(), make_policy()
    shifted = dataclasses.replace(
        batch,
        old_logprobs=batch.old_logprobs - 0.5,
        old_legal_logprobs=batch.old_legal_logprobs - 0.5,
    )
    plain = run(policy, shifted)
    assert plain["policy/ratio_out_of_range"] == 1.0
    monkeypatch.setattr(PolicyNet, "reduced_precision", lambda self, device: True)
    metrics = run(policy, shifted)
    assert metrics["ratio/mismatch"] == pytest.approx(math.exp(0.5) - 1, rel=1e-4)
    assert metrics["policy/ratio_out_of_range"] == 0.0
    assert abs(metrics["reg/kl_old"]) < 1e-6


def test_the_same_generator_seed_gives_bit_identical_weights() -> None:
    batch, results = make_batch(), []
    for seed in (0, 0, 1):
        policy = make_policy()
        optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
        run(policy, batch, optimizer=optimizer, generator=torch.Generator().manual_seed(seed))
        results.append(weights(policy))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_a_penalty_against_the_reference_pulls_towards_it() -> None:
    batch = make_batch()
    uniform = torch.where(batch.legal_ids >= 0, 0.0, -torch.inf).log_softmax(-1)
    batch = batch.with_reference(uniform)
    policy = make_policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-2)
    settings = {"advantages": torch.zeros_like(batch.rewards), "minibatch_size": 1000}
    config = RegularizerConfig(kl_ref_coef=1.0)
    before = run(policy, batch, config=config, **settings)["reg/kl_ref"]
    algorithm = GRPO(group_size=4, update_epochs=20)
    run(policy, batch, optimizer=optimizer, algorithm=algorithm, config=config, **settings)
    assert run(policy, batch, config=config, **settings)["reg/kl_ref"] < 0.5 * before


def test_a_batch_without_valid_samples_is_refused() -> None:
    batch = make_batch()
    empty = dataclasses.replace(batch, valid=torch.zeros_like(batch.valid))
    with pytest.raises(ValueError, match="no valid sample"):
        run(make_policy(), empty)
