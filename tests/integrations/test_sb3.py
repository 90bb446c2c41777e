"""MaskablePPO on our network: the same probabilities, advantages, step and step size as ours."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.vec_env import VecCheckNan, VecMonitor

from algorithms.config.run import OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.core.advantages import gae
from algorithms.core.distribution import MaskedCategorical
from algorithms.integrations.sb3 import BoardsVecEnv, NetworkPolicy
from algorithms.networks.build import build_policy
from algorithms.networks.policy_net import outputs_at
from algorithms.networks.settings import NetworkConfig
from algorithms.regularization import Regularizer
from algorithms.updates.training_batch import make_targets
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
        most = (legal_ids >= 0).sum(-1).log()
        assert float((ours.entropy() / most).nanmean()) < 0.97
        assert float(values.abs().max()) > 0.01


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
        batch, theirs = sample(outside)
        targets = make_targets(config.algorithm, Regularizer(config.regularizer, 1.0), batch)
        if config.env.opponent is not None:
            assert int(batch.truncated.sum()) >= 4 and not batch.alternating
        assert float(targets.advantages.std()) > 0.1
        torch.testing.assert_close(targets.advantages, theirs.advantages, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(targets.returns, theirs.returns, rtol=1e-5, atol=1e-5)
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
        batch, targets = sample(outside)
        ours = copy.deepcopy(outside.policy)
        learner = learner_of(
            ours,
            config.algorithm,
            Regularizer(config.regularizer, 1.0),
            optimizer=torch.optim.Adam(ours.parameters(), lr=config.optimizer.learning_rate),
            minibatch_size=config.optimizer.minibatch_size,
            max_grad_norm=config.optimizer.max_grad_norm,
        )
        metrics = update(learner, batch, targets)
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
        assert metrics["policy/ratio_out_of_range"] > 0.05


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
    vec = gym.make_vec(
        "ChessSelfPlay-v0", num_envs=2, evaluator="builtin", opponent="random", max_plies=6
    )
    boards, network = BoardsVecEnv(vec, None), NetworkConfig(network="resnet")
    given = {"config": network, "frozen_layers": ("stem",), "init_from": "warm"}
    model = MaskablePPO(NetworkPolicy, boards, policy_kwargs=given, n_steps=4, batch_size=8, seed=0)
    net = model.policy.net
    cpu = torch.device("cpu")
    fresh = build_policy(network, seed=0, device=cpu, critic=True)
    assert torch.equal(net.value_head[0].weight, fresh.value_head[0].weight)
    stem, rest = net.stem.weight.detach().clone(), net.to_vector.weight.detach().clone()
    assert not torch.equal(stem, fresh.stem.weight)
    model.learn(8)
    assert torch.equal(net.stem.weight, stem) and not torch.equal(net.to_vector.weight, rest)
    boards.close()


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
