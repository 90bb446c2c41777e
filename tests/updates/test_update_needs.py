"""What an update does for an algorithm that asks for more than sampled moves."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from algorithms.core.algorithm import Critic, Needs
from algorithms.core.distribution import MaskedCategorical
from algorithms.networks.build import build_policy
from algorithms.networks.settings import NetworkConfig
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.updates.learner import NonFiniteGuard
from algorithms.updates.training_batch import Targets, make_targets, shuffled
from tests.small import CPU, VecOf, make_batch, make_policy
from tests.updates.recording_algorithm import (
    RecordingAlgorithm,
    critic_and_batch,
    flat_weights,
    run,
)


@pytest.mark.parametrize("form", ["positions", "games"])
def test_the_value_loss_is_the_weighted_mean_of_half_the_squared_errors(
    vec_of: VecOf, form: str
) -> None:
    policy, batch = critic_and_batch(vec_of, form)
    algorithm = RecordingAlgorithm(Needs(critic=Critic(vf_coef=0.7)))
    assert batch.values is not None
    values = batch.values.unsqueeze(-1) if form == "positions" else batch.values
    expected = 0.5 * torch.where(batch.valid, batch.rewards, 0.0).square()  # A = r, so R - V = r
    metrics = run(policy, batch, algorithm)
    wanted = float(expected.sum() / batch.valid.sum())
    assert metrics["train/value_loss"] == pytest.approx(wanted, rel=1e-4)
    assert metrics["train/value_loss_weighted"] == pytest.approx(0.7 * wanted, rel=1e-4)
    whole = metrics["train/policy_loss"] + 0.7 * wanted + metrics["reg/loss"]
    alone = run(policy, batch, algorithm, minibatch_size=1000)
    assert alone["train/loss"] == pytest.approx(whole, rel=1e-4)
    returns = (batch.rewards + values)[batch.valid].double()
    left = batch.rewards[batch.valid].double().var(correction=0)
    explained = float(1 - left / returns.var(correction=0))
    assert metrics["train/explained_variance"] == pytest.approx(explained, rel=1e-5)


def test_a_critic_learns_what_a_position_pays(vec_of: VecOf) -> None:
    policy, batch = critic_and_batch(vec_of)
    pay = (batch.obs.flatten(2).float().mean(-1) > batch.obs.float().mean()).float()
    batch = dataclasses.replace(batch, rewards=pay[..., None].expand_as(batch.rewards))
    algorithm = RecordingAlgorithm(Needs(critic=Critic(vf_coef=1.0)), update_epochs=20)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    before = run(policy, batch, RecordingAlgorithm(algorithm.asked))["train/value_loss"]
    targets = make_targets(algorithm, Regularizer(RegularizerConfig(), 1.3), batch)
    run(policy, batch, algorithm, optimizer=optimizer, targets=targets)
    after = run(policy, batch, RecordingAlgorithm(algorithm.asked), targets=targets)[
        "train/value_loss"
    ]
    assert after < 0.5 * before


def test_an_algorithm_with_a_critic_refuses_a_batch_without_values() -> None:
    algorithm = RecordingAlgorithm(Needs(critic=Critic()))
    with pytest.raises(ValueError, match="asking learns a critic and the batch has no values"):
        run(make_policy(), make_batch(), algorithm)


@pytest.mark.parametrize("form", ["positions", "games"])
def test_a_single_step_is_that_of_the_whole_batch_whatever_the_minibatches(form: str) -> None:
    batch, moved = make_batch(form), []
    for size in (1000, 5, 1):
        policy = make_policy()
        algorithm = RecordingAlgorithm(Needs(single_step=True))
        metrics = run(policy, batch, algorithm, rate=0.5, minibatch_size=size)
        assert metrics["train/steps"] == 1
        assert metrics["policy/ratio_out_of_range"] == 0
        moved.append((flat_weights(policy), metrics["train/grad_norm"], metrics["train/loss"]))
    for other in moved[1:]:
        torch.testing.assert_close(moved[0][0], other[0], atol=1e-6, rtol=1e-4)
        assert other[1:] == pytest.approx(moved[0][1:], rel=1e-4)


def test_whole_games_stay_in_one_minibatch_and_every_state_comes_once() -> None:
    flat = make_batch("games").flat()
    generator = torch.Generator().manual_seed(0)
    parts = list(shuffled(flat, 6, generator, whole_games=True))
    assert len(parts) == 4
    assert sorted(torch.cat(parts).tolist()) == list(range(24))
    homes = [set(flat.games[part].tolist()) for part in parts]
    assert sum(map(len, homes)) == len(set().union(*homes)) == 8
    again = list(shuffled(flat, 6, generator, whole_games=True))
    assert [p.tolist() for p in again] != [p.tolist() for p in parts]
    algorithm = RecordingAlgorithm(Needs(whole_games=True))
    run_on = make_batch("games")
    assert len({len(set(f.games.tolist())) for f in algorithm.given}) == 0
    run(
        build_policy(NetworkConfig(network="resnet", channels=8, blocks=1), seed=0, device=CPU),
        run_on,
        algorithm,
    )
    seen = [set(f.games.tolist()) for f in algorithm.given]
    assert sum(map(len, seen)) == len(set().union(*seen)) == 8


def test_uniforms_are_drawn_only_where_they_are_needed() -> None:
    batch = make_batch()
    plain, random = RecordingAlgorithm(), RecordingAlgorithm(Needs(uniforms=True))
    generators = [torch.Generator().manual_seed(0) for _ in range(3)]
    run(make_policy(), batch, plain, generator=generators[0])
    run(make_policy(), batch, random, generator=generators[1])
    assert all(part.uniforms is None for part in plain.given)
    drawn = torch.cat([part.uniforms for part in random.given if part.uniforms is not None])
    assert drawn.shape == (12, 4) and drawn.min() >= 0 and drawn.max() < 1 and drawn.std() > 0.2
    torch.randperm(12, generator=generators[2])
    assert torch.equal(generators[0].get_state(), generators[2].get_state())


def test_gate_and_delight_are_means_over_the_valid_samples() -> None:
    batch = make_batch("games")
    valid = batch.valid.clone()
    valid[0, 0] = False
    batch = dataclasses.replace(batch, valid=valid)
    metrics = run(make_policy(), batch, RecordingAlgorithm(gate_at=0.25))
    assert metrics["policy/gate_mean"] == pytest.approx(0.25)
    delight = -(batch.rewards * batch.old_logprobs)[valid].mean()
    assert metrics["policy/delight_mean"] == pytest.approx(float(delight), rel=1e-4)
    assert "policy/gate_mean" not in run(make_policy(), batch, RecordingAlgorithm())


@pytest.mark.parametrize(("share", "passes"), [(1 / 1.2, 2), (1 / 1.6, 1)])
def test_passes_end_beyond_one_and_a_half_times_the_target_kl(share: float, passes: int) -> None:
    batch, learner = make_batch(), make_policy()
    with torch.no_grad():
        learner.action_bias.mul_(1.2)  # every state has some KL from the start
    flat = batch.flat()
    moved = learner.outputs(flat.obs, flat.legal_ids, batch.temperature).dist.logprobs
    kl = MaskedCategorical(flat.old_legal_logprobs, flat.legal, 1.0).kl(moved)
    algorithm = RecordingAlgorithm(update_epochs=2, target_kl=share * float(kl.detach().mean()))
    metrics = run(learner, batch, algorithm, minibatch_size=flat.num_states)
    assert metrics["train/passes"] == passes


def test_a_step_that_was_left_out_does_not_dilute_the_kl_of_its_pass() -> None:
    batch, learner = make_batch(), make_policy()
    with torch.no_grad():
        learner.action_bias.mul_(1.2)  # every state has some KL from the start
    flat = batch.flat()
    moved = learner.outputs(flat.obs, flat.legal_ids, batch.temperature).dist.logprobs
    kl = MaskedCategorical(flat.old_legal_logprobs, flat.legal, 1.0).kl(moved)
    algorithm = RecordingAlgorithm(
        update_epochs=2, target_kl=0.9 * float(kl[6:].detach().mean()) / 1.5
    )
    advantages = batch.rewards.clone()
    advantages[:2] = torch.nan  # 6 of the 12 states
    targets = Targets(advantages, algorithm.weights(batch))
    metrics = run(
        learner, batch, algorithm, targets=targets, minibatch_size=1, guard=NonFiniteGuard(99)
    )
    assert (metrics["train/skipped_steps"], metrics["train/passes"]) == (6, 1)


def test_returns_that_are_all_equal_have_no_explained_variance(vec_of: VecOf) -> None:
    policy, batch = critic_and_batch(vec_of)
    algorithm = RecordingAlgorithm(Needs(critic=Critic()))
    zeros = torch.zeros_like(batch.rewards)
    targets = Targets(zeros, algorithm.weights(batch), returns=zeros + 1.0)
    assert math.isnan(run(policy, batch, algorithm, targets=targets)["train/explained_variance"])


def test_rewards_that_are_not_finite_are_counted_in_the_error() -> None:
    batch = make_batch()
    rewards = batch.rewards.clone()
    rewards[0, 0, :2] = torch.inf
    rewards[1, 0, 0] = torch.nan
    broken = dataclasses.replace(batch, rewards=rewards)
    with pytest.raises(ValueError, match="3 of 48 rewards are not finite"):
        run(make_policy(), broken, RecordingAlgorithm())
    hidden = dataclasses.replace(broken, valid=rewards.isfinite())
    run(make_policy(), hidden, RecordingAlgorithm())


def test_returns_hold_the_shaped_rewards_and_no_reward_is_overwritten(vec_of: VecOf) -> None:
    policy, batch = critic_and_batch(vec_of)
    batch = batch.with_reference(torch.where(batch.legal_ids >= 0, 0.0, -torch.inf).log_softmax(-1))
    config = RegularizerConfig(kl_ref_coef=0.5, kl_ref_estimator="k1", kl_ref_placement="reward")
    rewards = batch.rewards.clone()
    targets = make_targets(
        RecordingAlgorithm(Needs(critic=Critic())), Regularizer(config, 1.3), batch
    )
    assert batch.values is not None and targets.returns is not None
    torch.testing.assert_close(targets.returns - batch.values[..., None], targets.advantages)
    assert not torch.allclose(targets.advantages, rewards)
    assert torch.equal(batch.rewards, rewards)
