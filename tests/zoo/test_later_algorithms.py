"""Algorithms of tomorrow fit the four slots: no file of the loop is edited for them."""

from __future__ import annotations

import dataclasses
import itertools
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
from algorithms.core.distribution import MaskedCategorical
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
from tests.zoo.later_algorithms import GSPO, Kondo, MaxAtK, MaxRL, PassAtK

LATER: tuple[Algorithm, ...] = (
    GSPO(clip_range=0.2, clip_range_high=0.3),
    Kondo(),
    MaxRL(),
    PassAtK(),
    MaxAtK(),
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


def test_kondo_s_mean_over_all_draws_is_the_gate_of_delight() -> None:
    flat = make_batch().flat()
    dist = MaskedCategorical(flat.old_legal_logprobs, flat.legal, 1.0)
    advantages = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    draws = 1000
    total = torch.zeros(12, 4)
    for i in range(draws):
        uniforms = torch.full((12, 4), (i + 0.5) / draws)
        given = dataclasses.replace(flat, uniforms=uniforms)
        total += Kondo(rho=0.25, eta=0.5).gate(dist, given, advantages)
    delight = (-advantages * flat.old_logprobs).double().numpy()
    odds = 1 / (1 + np.exp(-(delight - np.quantile(delight, 0.75)) / 0.5))
    assert np.abs(total.numpy() / draws - odds).max() <= 1 / draws


# Advantages of one's own ------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [MaxRL(), PassAtK(), MaxAtK()], ids=lambda a: a.name)
def test_an_advantage_of_one_s_own_moves_the_network_by_its_definition(
    algorithm: Algorithm,
) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(-100, 0, (4, 3, 4), generator=generator, dtype=torch.int32)
    before = torch.randint(-50, 50, (4, 3), generator=generator, dtype=torch.int32)
    rewards_ = torch.randn(4, 3, 4, generator=generator)
    batch = dataclasses.replace(make_batch(), score_cp=scores, before_cp=before, rewards=rewards_)
    lost = (before.unsqueeze(-1) - scores).reshape(12, 4).numpy()
    rewards = batch.rewards.reshape(12, 4).double().numpy()
    old = batch.old_logprobs.reshape(12, 4)
    wanted = np.zeros((12, 4))
    for i in range(12):
        good = lost[i] <= 50
        if algorithm.name == "maxrl" and good.any():
            wanted[i] = good / good.mean() - 1
        if algorithm.name == "max_at_k":
            others = [np.delete(rewards[i], j).max() for j in range(4)]
            wanted[i] = np.maximum(rewards[i] - others, 0)
        pairs = list(itertools.combinations(range(4), 2))
        best = np.array([max(rewards[i][list(pair)] > -0.02) for pair in pairs], float)
        if algorithm.name == "pass_at_k" and best.std() > 0:
            mine = [
                np.mean([b for b, pair in zip(best, pairs, strict=True) if j in pair])
                for j in range(4)
            ]
            wanted[i] = (np.array(mine) - best.mean()) / best.std()
    assert (wanted != 0).any()

    def loss(logprobs: list[list[Tensor]]) -> Tensor:
        total = torch.zeros(())
        for i, j in itertools.product(range(12), range(4)):
            a, logprob = float(wanted[i, j]), logprobs[i][j]
            if algorithm.name == "pass_at_k":
                ratio = (logprob - old[i, j]).exp()
                total = total - torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a) / 48
            else:
                total = total - a * logprob / 48
        return total

    gradient, value = by_hand(batch, loss)
    moved, metrics = step(algorithm, batch)
    torch.testing.assert_close(moved, gradient, rtol=1e-3, atol=1e-5 * float(gradient.abs().max()))
    assert metrics["train/policy_loss"] == pytest.approx(value, rel=1e-4, abs=1e-6)


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
