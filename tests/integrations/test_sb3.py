"""MaskablePPO on our network: the same probabilities, advantages, step and step size as ours."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.vec_env import VecCheckNan, VecMonitor

from algorithms.config.run import OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.advantages import gae
from algorithms.core.distribution import MaskedCategorical
from algorithms.grpo import GRPO
from algorithms.integrations.sb3.policy import NetworkPolicy
from algorithms.integrations.sb3.session import make_sb3_session
from algorithms.integrations.sb3.settings import learning_rate_schedule, maskable_ppo_arguments
from algorithms.networks.build import build_policy
from algorithms.networks.logprobs import outputs_at
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.ppo import PPO
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.updates.targets import make_targets
from algorithms.updates.update import update
from tests.config.custom_parts import HERE
from tests.integrations.sb3_runs import (
    one_ply,
    one_ply_facts,
    opened,
    sample,
    tensors_of,
    values_of,
    versus,
    versus_facts,
)
from tests.networks.facts_net import FACTS
from tests.updates.learners import learner_of

Make = Callable[..., TrainConfig]
MODES = pytest.mark.parametrize("make", [one_ply, versus, one_ply_facts, versus_facts])
OWN = [NetworkConfig(network=f"{HERE}:Linear"), FACTS]


@MODES
def test_the_first_weights_are_those_of_our_own_run(make: Make) -> None:
    config = make(seed=3)
    own = build_policy(config.policy, seed=3, device=torch.device("cpu"), critic=True)
    outside = make_sb3_session(config)
    try:
        for name, tensor in outside.policy.state_dict().items():
            assert torch.equal(tensor, own.state_dict()[name]), name
        trained = {
            id(p) for group in outside.model.policy.optimizer.param_groups for p in group["params"]
        }
        assert trained == {id(parameter) for parameter in outside.policy.parameters()}
    finally:
        outside.close()


@pytest.mark.parametrize("make", [one_ply, one_ply_facts])
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_probabilities_values_and_entropy_are_ours(make: Make, temperature: float) -> None:
    config = make(rollout=RolloutConfig(num_envs=4, num_plies=2, temperature=temperature))
    with opened(config) as outside:
        observed = outside.env.reset()
        obs = tensors_of(observed)
        masks = np.stack(outside.env.env_method("action_masks"))
        num_legal = masks.sum(1)
        legal_ids = torch.full((len(masks), int(num_legal.max())), -1)
        for row, mask in enumerate(masks):
            legal_ids[row, : num_legal[row]] = torch.from_numpy(np.flatnonzero(mask))
        with torch.no_grad():
            theirs = outside.model.policy.get_distribution(obs, masks).distribution
            values = outside.model.policy.predict_values(obs).squeeze(1)
            facts = planes = None
            if isinstance(obs, dict):
                planes, facts = obs["planes"], obs["move_facts"][:, : legal_ids.shape[1]]
            logits = outside.policy(obs if planes is None else planes, legal_ids, facts)
            ours = MaskedCategorical(logits, legal_ids >= 0, temperature)
        probs = theirs.probs.gather(1, legal_ids.clamp(min=0)).masked_fill(legal_ids < 0, 0.0)
        torch.testing.assert_close(probs, ours.probs, rtol=1e-5, atol=1e-6)
        assert float(theirs.probs[~torch.from_numpy(masks)].max()) == 0.0
        torch.testing.assert_close(theirs.entropy(), ours.entropy(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(values, values_of(outside, observed), rtol=1e-6, atol=1e-6)
        assert (
            float(ours.normalized_entropy().nanmean()) < 0.97 and float(values.abs().max()) > 0.01
        )


def test_a_hand_made_game_against_an_opponent_has_the_same_advantages_in_both() -> None:
    # Moves 0 and 1 of a game that the ply limit cuts at a position worth .5; 2 and 3 of one that ends
    # by the rules; 4 of one that goes on to a position worth -.25. gamma .5, lambda .5.
    rewards = torch.tensor([[1.0, 0.0, 2.0, -1.0, 0.5]])
    values = torch.tensor([[0.0, 1.0, 0.5, 0.25, 1.0]])
    next_values = torch.tensor([[1.0, 0.5, 0.25, 0.0, -0.25]])
    terminated = torch.tensor([[False, False, False, True, False]])
    truncated = torch.tensor([[False, True, False, False, False]])
    ended, everywhere = terminated | truncated, torch.ones(1, 5, dtype=torch.bool)
    found = gae(rewards, values, next_values, ended, everywhere, 0.5, 0.5)
    # delta: 1 + .5 - 0, 0 + .25 - 1, 2 + .125 - .5, -1 - .25, .5 - .125 - 1.
    by_hand = torch.tensor([[1.5 - 0.75 / 4, -0.75, 1.625 - 1.25 / 4, -1.25, -0.625]])
    torch.testing.assert_close(found, by_hand)

    box = spaces.Box(0.0, 1.0, (1,))
    buffer = RolloutBuffer(5, box, box, gamma=0.5, gae_lambda=0.5, device="cpu")
    start = np.ones(1)
    for t in range(5):
        paid = rewards[:, t].numpy() + 0.5 * float(next_values[0, t]) * truncated[:, t].numpy()
        nothing = np.zeros((1, 1))
        buffer.add(nothing, nothing, paid, start, values[:, t], torch.zeros(1))
        start = ended[:, t].numpy()
    buffer.compute_returns_and_advantage(next_values[:, -1], ended[:, -1].numpy())
    torch.testing.assert_close(torch.from_numpy(buffer.advantages.T.copy()), by_hand)


@MODES
def test_our_advantages_and_returns_of_a_rollout_are_those_of_sb3s_buffer(make: Make) -> None:
    config = make()
    with opened(config) as outside:
        sampled = sample(outside)
        batch = sampled.batch
        targets = make_targets(config.algorithm, Regularizer(config.regularizer, 1.0), batch)
        if config.env.opponent is not None:
            assert int(batch.truncated.sum()) >= 4 and not batch.alternating
        assert float(targets.advantages.std()) > 0.1
        torch.testing.assert_close(
            targets.advantages, sampled.targets.advantages, rtol=1e-5, atol=1e-5
        )
        torch.testing.assert_close(targets.returns, sampled.targets.returns, rtol=1e-5, atol=1e-5)
        rows = torch.arange(batch.actions[..., 0].numel())
        flat = batch.flat()
        assert torch.equal(
            flat.legal_ids[rows, flat.slots[:, 0]].long(), batch.actions.flatten(0, 1)[:, 0]
        )
        own = batch.old_legal_logprobs.gather(-1, batch.slots)
        torch.testing.assert_close(batch.old_logprobs, own, rtol=1e-5, atol=1e-5)


@MODES
def test_an_update_of_maskable_ppo_leaves_the_policy_that_ours_leaves(make: Make) -> None:
    both_updates(make())


@pytest.mark.parametrize("policy", OWN, ids=["planes", "facts"])
def test_an_update_of_a_network_of_ones_own_leaves_the_same_policy(policy: NetworkConfig) -> None:
    optimizer = OptimizerConfig(learning_rate=2e-2, minibatch_size=32)
    both_updates(versus(policy=policy, optimizer=optimizer))


def both_updates(config: TrainConfig) -> None:
    """Asserts that an update of MaskablePPO and one of ours leave the same policy, up to rounding."""
    with opened(config) as outside:
        sampled = sample(outside)
        ours, batch = copy.deepcopy(outside.policy), sampled.batch
        learner = learner_of(
            ours,
            config.algorithm,
            Regularizer(config.regularizer, 1.0),
            optimizer=torch.optim.Adam(ours.parameters(), lr=config.optimizer.learning_rate),
            minibatch_size=config.optimizer.minibatch_size,
            max_grad_norm=config.optimizer.max_grad_norm,
        )
        metrics = update(learner, batch, sampled.targets)
        before = batch.old_legal_logprobs.flatten(0, 1)
        # The first update: nothing of the budget is used up before it.
        outside.model._update_current_progress_remaining(1, 4)
        outside.model.train()
        flat = batch.flat()
        with torch.no_grad():
            left = [outputs_at(net, flat) for net in (ours, outside.policy)]
        legal = flat.legal
        torch.testing.assert_close(
            left[0].dist.logprobs[legal], left[1].dist.logprobs[legal], rtol=3e-4, atol=1e-4
        )
        torch.testing.assert_close(left[0].values, left[1].values, rtol=3e-4, atol=1e-4)
        assert float((left[1].dist.logprobs[legal] - before[legal]).abs().mean()) > 0.05
        assert metrics["policy/ratio_out_of_range"] > 0.1


def test_the_step_size_of_every_update_is_ours() -> None:
    optimizer = OptimizerConfig(
        learning_rate=1e-2, lr_final=1e-3, warmup_updates=2, minibatch_size=8
    )
    config = one_ply(optimizer=optimizer, total_moves=5 * 32 + 31)  # five rollouts and a rest
    schedule = learning_rate_schedule(config)
    for number in range(5):
        remaining = 1 - (number + 1) * 32 / (5 * 32)  # SB3 asks when the rollout is there
        expected = optimizer.learning_rate_at(number, number * 32 / config.total_moves)
        assert schedule(remaining) == pytest.approx(expected)


def test_every_setting_of_ppo_has_its_place_among_the_arguments() -> None:
    algorithm = PPO(
        group_size=4, update_epochs=3, clip_range=0.1, gamma=0.0, gae_lambda=0.7, vf_coef=0.6,
        normalize_advantages=False,
    )  # fmt: skip
    arguments = maskable_ppo_arguments(one_ply(algorithm=algorithm, seed=9))
    assert callable(arguments.pop("learning_rate"))
    assert arguments == {
        "n_steps": 2, "batch_size": 32, "n_epochs": 3, "gamma": 0.0, "gae_lambda": 0.7,
        "clip_range": 0.1, "clip_range_vf": None, "normalize_advantage": False, "ent_coef": 0.1,
        "vf_coef": 0.3, "max_grad_norm": 1.0, "target_kl": None, "seed": 9,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": GRPO(group_size=4)}, r"the algorithm 'grpo': MaskablePPO is 'ppo'"),
        ({"algorithm": PPO(gamma=0.9)}, r"gamma is 0.9 without an opponent.*set env.opponent"),
        ({"algorithm": PPO(gamma=0.0, clip_range_high=0.3)}, r"clip_range_high is 0.3.*symmetric"),
        ({"algorithm": PPO(gamma=0.0, clip_range_vf=0.3)}, r"clip_range_vf is 0.3.*set it to None"),
        ({"algorithm": PPO(gamma=0.0, target_kl=0.1)}, r"target_kl is 0.1.*exact KL"),
        ({"precision": PrecisionConfig(logprob_dtype="bfloat16")}, r"logprob_dtype is 'bfloat16'"),
        ({"rollout": RolloutConfig(form="games")}, r"rollout.form is 'games'"),
        ({"rollout": RolloutConfig(num_envs=4, num_plies=2, sync_interval_updates=2)}, r"sync_int"),
        (
            {"optimizer": OptimizerConfig(minibatch_size=3)},
            r"minibatch_size is 3 and.* 8 positions",
        ),
        ({"regularizer": RegularizerConfig(kl_ref_coef=0.1)}, r"regularizer.kl_ref_coef is 0.1"),
        (
            {"regularizer": RegularizerConfig(ent_estimator="sampled")},
            r"ent_estimator is 'sampled'",
        ),
        ({"seed": 2**40}, r"seed is 1099511627776: NumPy's"),
        ({"loop": "native"}, r"loop is 'native': this is MaskablePPO's; set loop to sb3"),
        ({"total_moves": 31}, r"total_moves is 31, one rollout scores 32"),
    ],
)
def test_what_maskable_ppo_cannot_do_is_refused_by_name(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_sb3_session(one_ply(**changes))


@pytest.mark.parametrize("make", [versus, versus_facts])
def test_sb3s_own_wrappers_evaluation_and_file_of_a_policy_work(make: Make, tmp_path: Path) -> None:
    with opened(make()) as outside:
        model, watched = outside.model, VecCheckNan(VecMonitor(outside.env))
        rewards, lengths = evaluate_policy(model, watched, 6, return_episode_rewards=True)
        assert len(rewards) == 6 and all(1 <= length <= 3 for length in lengths)
        assert all(-2 <= reward <= 2 for reward in rewards)
        model.policy.save(tmp_path / "policy")
        loaded = NetworkPolicy.load(tmp_path / "policy")  # written by this very test
        obs = tensors_of(outside.env.reset())
        with torch.no_grad():
            torch.testing.assert_close(loaded.predict_values(obs), model.policy.predict_values(obs))
            ours, theirs = (
                policy.get_distribution(obs).distribution.logits
                for policy in (model.policy, loaded)
            )
        torch.testing.assert_close(theirs, ours)


def test_frozen_layers_stay_and_given_weights_are_taken() -> None:
    optimizer = OptimizerConfig(learning_rate=1e-2, minibatch_size=8, frozen_layers=("stem",))
    with opened(one_ply(optimizer=optimizer)) as outside:
        stem = outside.policy.stem.weight.detach().clone()
        rest = outside.policy.to_vector.weight.detach().clone()
        sample(outside)
        outside.model.train()
        assert torch.equal(outside.policy.stem.weight, stem)
        assert not torch.equal(outside.policy.to_vector.weight, rest)
    default = dataclasses.replace(
        one_ply(), policy=NetworkConfig(network="resnet"), init_from="warm"
    )
    warm = make_sb3_session(default)
    try:
        fresh = build_policy(
            NetworkConfig(network="resnet"), seed=0, device=torch.device("cpu"), critic=True
        )
        assert not torch.equal(warm.policy.stem.weight, fresh.stem.weight)
        assert torch.equal(warm.policy.value_head[0].weight, fresh.value_head[0].weight)  # type: ignore[index]
    finally:
        warm.close()


def test_without_a_mask_a_network_that_is_asked_for_legal_moves_plays_them() -> None:
    with opened(versus_facts()) as outside:
        observed = outside.env.reset()
        masks = np.stack(outside.env.env_method("action_masks"))
        for _ in range(5):
            actions, _ = outside.model.predict(observed)
            assert masks[np.arange(len(masks)), actions].all()


def test_dropout_is_off_in_sampling_and_in_learning() -> None:
    policy = NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8, dropout=0.5)
    both_updates(one_ply(policy=policy))
