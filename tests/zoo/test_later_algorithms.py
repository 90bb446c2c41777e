"""Algorithms of tomorrow fit the four slots: no file of the loop is edited for them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms import ALGORITHMS
from algorithms.config.run import RolloutConfig
from algorithms.core.algorithm import Algorithm
from algorithms.core.batch import RolloutBatch
from algorithms.networks.policy_net import PolicyNet
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.training.trainer import train
from algorithms.updates.training_batch import make_targets
from algorithms.updates.update import update
from tests.rollouts.play import play_games
from tests.small import make_batch, make_policy, make_vec
from tests.training.runs import Watcher, stopped_and_straight, tiny
from tests.updates.learners import learner_of
from tests.updates.recording_algorithm import flat_weights
from tests.zoo.later_algorithms import GSPO, Kondo

LATER: tuple[Algorithm, ...] = (
    GSPO(clip_range=0.2, clip_range_high=0.3),
    Kondo(),
)
GAMES = RolloutConfig(form="games", num_envs=4, num_plies=4, train_sides="start")
names = pytest.mark.parametrize("algorithm", LATER, ids=lambda algorithm: algorithm.name)


def step(
    algorithm: Algorithm, batch: RolloutBatch, *, rate: float = 1.0, **changes: Any
) -> tuple[Tensor, dict[str, float]]:
    """(what one update subtracts from the weights divided by the rate, metrics).

    The learner is not the policy that sampled, so that no ratio is 1.
    """
    policy = make_policy(seed=7)
    regularizer = Regularizer(RegularizerConfig(), batch.temperature)
    before = flat_weights(policy)
    plain = {"generator": torch.Generator().manual_seed(3), "minibatch_size": 1000, "rate": rate}
    learner = learner_of(policy, algorithm, regularizer, **plain | changes)
    metrics = update(learner, batch, make_targets(algorithm, regularizer, batch))
    after = flat_weights(policy)
    return (before - after) / rate if rate else before - after, metrics


def by_hand(
    batch: RolloutBatch, loss: Callable[[list[list[Tensor]]], Tensor]
) -> tuple[Tensor, float]:
    """(gradient, value) of a loss of the learner's log-probabilities, `[state][sample]` scalars."""
    policy: PolicyNet = make_policy(seed=7)
    flat = batch.flat()
    dist = policy.outputs(flat.obs, flat.legal_ids, batch.temperature).dist
    value = loss([list(row) for row in dist.gather(flat.slots)])
    gradients = torch.autograd.grad(value, list(policy.parameters()), allow_unused=True)
    parts = [
        torch.zeros_like(p).flatten() if g is None else g.flatten()
        for g, p in zip(gradients, policy.parameters(), strict=True)
    ]
    return torch.cat(parts), float(value.detach())


def uneven_games() -> RolloutBatch:
    """8 games of 1 to 4 trained plies, from 2 starts, without a ply of the opponent."""
    vec = make_vec(8)
    vec.reset(seed=0)
    generator = torch.Generator().manual_seed(0)
    settings = {"num_plies": 8, "generator": generator, "train_sides": "start"}
    batch = play_games(vec, make_policy(), fens=vec.fens()[::4], **settings)
    vec.close()
    last = (torch.arange(8) % 4 * 2).reshape(2, 4, 1)
    ply = torch.arange(batch.valid.shape[-1])
    cut = batch.truncated | ((ply == last) & ~batch.terminated)
    rewards = torch.randn(batch.rewards.shape, generator=generator)
    return dataclasses.replace(
        batch, valid=batch.valid & (ply <= last), truncated=cut, rewards=rewards
    )


# GSPO ------------------------------------------------------------------------------------------


def gspo_by_hand(batch: RolloutBatch, low: float, high: float) -> tuple[Tensor, float, list[float]]:
    """(gradient, loss, ratios): -min(s A, clip(s) A), game by game, A standardised in its group."""
    valid, old = batch.valid.reshape(8, -1), batch.old_logprobs.reshape(8, -1)
    ratios: list[float] = []
    ended = (batch.terminated | batch.truncated).reshape(8, -1)
    length = [int(row.int().argmax()) + 1 if row.any() else len(row) for row in ended]
    signed = batch.rewards.reshape(8, -1) * (-1.0) ** torch.arange(valid.shape[-1])
    worth = np.array([float(row[:n].sum()) for row, n in zip(signed, length, strict=True)])
    groups = worth.reshape(2, 4)
    spread = groups.std(-1, ddof=1, keepdims=True) + 1e-4
    advantages = ((groups - groups.mean(-1, keepdims=True)) / spread).reshape(8)

    def loss(logprobs: list[list[Tensor]]) -> Tensor:
        total = torch.zeros(())
        plies = valid.shape[-1]
        for game in range(8):
            used = [t for t in range(plies) if valid[game, t]]
            s = torch.stack([logprobs[game * plies + t][0] - old[game, t] for t in used]).mean()
            s = s.exp()
            ratios.append(float(s.detach()))
            unclipped = s * float(advantages[game])
            clipped = s.clamp(1 - low, 1 + high) * float(advantages[game])
            total = total - torch.minimum(unclipped, clipped) / 8
        return total

    gradient, value = by_hand(batch, loss)
    return gradient, value, ratios


@pytest.mark.parametrize(("low", "high"), [(1.0, math.inf), (0.1, 0.2)])
def test_gspo_s_step_is_that_of_the_clipped_ratio_of_whole_games(low: float, high: float) -> None:
    batch = uneven_games()
    assert batch.valid.sum(-1).flatten().tolist() == [1, 2, 3, 4] * 2
    moved, metrics = step(GSPO(clip_range=low, clip_range_high=high), batch)
    gradient, value, ratios = gspo_by_hand(batch, low, high)
    assert min(ratios) < 0.9 and max(ratios) > 1.2  # what the second bounds are about
    torch.testing.assert_close(moved, gradient, rtol=1e-3, atol=1e-5 * float(gradient.abs().max()))
    assert metrics["train/policy_loss"] == pytest.approx(value, rel=1e-4)


def test_gspo_s_games_are_whole_in_every_minibatch() -> None:
    batch = uneven_games()
    algorithm = GSPO(clip_range=0.1, clip_range_high=0.2)
    _, metrics = step(algorithm, batch, rate=0.0, minibatch_size=5)
    assert metrics["train/steps"] == 4
    _, value, _ = gspo_by_hand(batch, 0.1, 0.2)
    assert metrics["train/policy_loss"] == pytest.approx(value, rel=1e-4)


# Kondo -----------------------------------------------------------------------------------------


def test_kondo_s_step_is_the_score_function_of_the_moves_that_passed_its_gate() -> None:
    batch, algorithm = make_batch(), Kondo(rho=0.3, eta=0.05)
    moved, metrics = step(algorithm, batch)
    drawn = torch.rand(12, 4, generator=torch.Generator().manual_seed(3)).numpy()
    rewards = batch.rewards.reshape(12, 4).double().numpy()
    advantages = rewards - rewards.mean(-1, keepdims=True)
    passed: list[tuple[int, int]] = []

    def loss(logprobs: list[list[Tensor]]) -> Tensor:
        delight = -advantages * np.array([[float(x.detach()) for x in row] for row in logprobs])
        odds = 1 / (1 + np.exp(-(delight - np.quantile(delight, 0.7)) / 0.05))
        passed.extend(zip(*np.nonzero(drawn < odds), strict=True))
        return sum((-float(advantages[i, j]) * logprobs[i][j] for i, j in passed), torch.zeros(()))

    gradient, _ = by_hand(batch, lambda logprobs: loss(logprobs) / 48)
    assert 5 < len(passed) < 43
    torch.testing.assert_close(moved, gradient, rtol=1e-3, atol=1e-5 * float(gradient.abs().max()))
    assert metrics["policy/gate_mean"] == pytest.approx(len(passed) / 48)


# Whole runs --------------------------------------------------------------------------------------


SELDOM: dict[str, Any] = {"eval_interval_updates": 9, "diagnostics_interval_updates": 2}


def later_run(algorithm: Algorithm, run_dir: Path, **changes: Any) -> Any:
    form = {"rollout": GAMES} if algorithm.needs().whole_games else {}
    return tiny(run_dir, algorithm=algorithm, **SELDOM | form | changes)


@names
def test_a_user_s_algorithm_trains_without_being_known(
    tmp_path: Path, algorithm: Algorithm
) -> None:
    assert algorithm.name not in ALGORITHMS
    result = train(later_run(algorithm, tmp_path, updates=2), display=Watcher())
    rows = read_metrics(tmp_path)[1:]
    assert result.updates == len(rows) >= 2 and result.algorithm == algorithm.name
    assert all(row["train/skipped_steps"] == 0 and row["train/steps"] >= 1 for row in rows)
    assert all(row["train/grad_norm"] > 0 for row in rows)
    assert rows[1]["grad_share/policy_norm"] > 0
    assert all(("policy/gate_mean" in row) == (algorithm.name == "kondo") for row in rows)


def test_a_run_of_a_class_that_is_not_in_the_zoo_can_be_continued(tmp_path: Path) -> None:
    # It draws from the run's own stream, which must go on where it was.
    _, stopped, _ = stopped_and_straight(tmp_path, 2, updates=4, algorithm=Kondo(), **SELDOM)
    with pytest.raises(ValueError, match=r"algorithm\.rho 0\.25 -> 0\.5"):
        train(later_run(Kondo(rho=0.5), stopped, updates=4), resume=True, display=Watcher())
