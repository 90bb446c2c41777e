"""GSPO against its definition in plain numpy: one ratio for a game, game by game."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.config.compatibility import check_settings
from algorithms.config.run import EnvConfig, RolloutConfig, TrainConfig
from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.grpo import GRPO
from algorithms.gspo import GSPO
from algorithms.testing.cases import Case, noise_like, random_case
from tests.zoo.by_state import Array, gradient_of, states_of
from tests.zoo.case_loss import batch_loss


def games_case(algorithm: Any, seed: int = 0) -> Case:
    """3 starts, 4 games each, of 1 to 4 plies."""
    return random_case(algorithm, "games", seed=seed, dtype=torch.float64)


def learner(case: Case, moved: float, seed: int = 0) -> Tensor:
    logits = torch.where(case.flat.legal, case.logits, 0.0)
    return (logits + moved * noise_like(case.logits, seed)).requires_grad_()


def definition(
    batch: RolloutBatch, flat: FlatBatch, logits: Tensor, low: float, high: float
) -> tuple[float, Array]:
    """(-mean over games of min(s A, clip(s) A), its gradient); A = (R - mean) / (std + 1e-4) ply by ply."""
    starts, members, plies = batch.rewards.shape
    states = states_of(logits, flat)
    rewards, over = batch.rewards.numpy(), (batch.terminated | batch.truncated).numpy()
    side, valid = batch.side.numpy(), batch.valid.numpy()
    worth = np.zeros((starts, members, plies))
    for p in range(starts):
        for g in range(members):
            length = int(over[p, g].argmax()) + 1 if over[p, g].any() else plies
            signs = np.where(side[p, g] == side[p, g, 0], 1.0, -1.0)
            worth[p, g, :length] = signs[:length] * (signs * rewards[p, g])[:length].sum()
    advantages = np.zeros_like(worth)
    for p in range(starts):
        for t in range(plies):
            group = [g for g in range(members) if valid[p, g, t]]
            if len(group) >= 2:
                found = worth[p, group, t]
                spread = found.std(ddof=1) + 1e-4
                advantages[p, group, t] = (found - found.mean()) / spread
    total, slopes, games = 0.0, np.zeros((len(states), 1)), starts * members
    for p in range(starts):
        for g in range(members):
            first = (p * members + g) * plies
            used = [t for t in range(plies) if valid[p, g, t]]
            s = math.exp(sum(states[first + t].log_ratio(0) for t in used) / len(used))
            for t in used:
                advantage = advantages[p, g, t]
                clip = (advantage > 0 and s > high) or (advantage < 0 and s < low)
                kept = min(max(s, low), high) if clip else s
                total -= kept * advantage / len(used) / games
                # In the token form s is the game's, and its gradient the move's own.
                slopes[first + t, 0] = 0.0 if clip else -s * advantage / len(used) / games
    return total, gradient_of(states, slopes, flat.temperature, logits.shape[-1])


@given(
    seed=st.integers(0, 2**31),
    moved=st.sampled_from([0.001, 0.1, 1.0]),
    bounds=st.sampled_from([(3e-4, 4e-4), (0.1, 0.2), (1.0, math.inf)]),
)
@settings(max_examples=30)
def test_loss_and_gradient_are_those_of_the_definition(
    seed: int, moved: float, bounds: tuple[float, float]
) -> None:
    case = games_case(GSPO(group_size=4, clip_range=bounds[0], clip_range_high=bounds[1]), seed)
    logits = learner(case, moved, seed)
    loss = batch_loss(case, logits)
    (gradient,) = torch.autograd.grad(loss, logits)
    value, expected = definition(case.batch, case.flat, logits, 1 - bounds[0], 1 + bounds[1])
    assert loss.item() == pytest.approx(value, rel=1e-10, abs=1e-13)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-10, atol=1e-13)


def test_with_one_advantage_for_a_game_the_gradient_is_that_of_the_sequence_s_ratio() -> None:
    # The paper's own objective: autograd through s itself, no stop-gradient anywhere.
    case = games_case(GSPO(group_size=4, clip_range=0.1, clip_range_high=0.2))
    logits = learner(case, 0.5)
    shape = case.batch.rewards.shape
    worth = noise_like(torch.zeros(shape[:2], dtype=torch.float64), 3)
    advantages = case.batch.flatten(torch.where(case.batch.valid, worth[..., None], 0.0))
    (gradient,) = torch.autograd.grad(batch_loss(case, logits, advantages=advantages), logits)
    gaps = case.dist(logits).gather(case.flat.slots) - case.flat.old_logprobs
    gaps = torch.where(case.batch.valid, gaps.reshape(shape), 0.0)
    s = (gaps.sum(-1) / case.batch.valid.sum(-1)).exp()
    sequence = -torch.minimum(s * worth, s.clamp(0.9, 1.2) * worth).mean()
    (expected,) = torch.autograd.grad(sequence, logits)
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-13)


def one_game(ratios: list[float], advantage: float) -> tuple[Case, Tensor, Tensor]:
    """(case, losses, gradient's sum of sizes by ply) of a game of two plies whose moves have these ratios."""
    case = random_case(GSPO(group_size=2), "games", num_legal=2, dtype=torch.float64, temperature=1)
    case = dataclasses.replace(case, flat=case.flat.select(slice(0, 2)))
    probs = 0.4 * torch.tensor(ratios).double()
    zeros = torch.zeros(2, 1, dtype=torch.int64)
    old = torch.full((2, 1), math.log(0.4)).double()
    flat = dataclasses.replace(
        case.flat, slots=zeros, old_logprobs=old, valid=torch.ones(2, 1, dtype=torch.bool)
    )
    case = dataclasses.replace(case, flat=flat)
    logits = torch.stack([probs, 1 - probs, torch.ones(2).double()], -1).log().requires_grad_()
    algorithm = GSPO(clip_range=0.2, clip_range_high=0.25)
    loss = algorithm.policy_loss(
        case.dist(logits), flat, torch.full((2, 1), advantage).double(), algorithm.controls()
    ).loss
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    return case, loss.detach(), gradient.abs().sum(-1)


def test_by_hand_a_move_that_fell_back_lets_one_pass_that_rose_too_far() -> None:
    # s = sqrt(2 x 0.5) = 1: both moves learn, though PPO's clip would have stopped the first.
    _, loss, sizes = one_game([2.0, 0.5], 1.0)
    torch.testing.assert_close(loss, torch.tensor([[-1.0], [-1.0]]).double())
    assert bool((sizes > 0).all())
    # s = sqrt(2 x 0.98) = 1.4: the whole game is stopped, the move that hardly moved among it.
    _, loss, sizes = one_game([2.0, 0.98], 1.0)
    torch.testing.assert_close(loss, torch.tensor([[-1.25], [-1.25]]).double())
    assert not sizes.any()


@pytest.mark.parametrize("moved", [0.0, 0.5, 3.0])
def test_games_of_one_ply_are_grpo_bit_for_bit(moved: float) -> None:
    # Each game is one ply: what `positions` form would be.
    same: dict[str, Any] = {"group_size": 4, "clip_range": 0.2, "clip_range_high": 0.3}
    case = games_case(GSPO(**same))
    games = torch.arange(case.flat.num_states)
    case = dataclasses.replace(case, flat=dataclasses.replace(case.flat, games=games))
    logits, advantages = learner(case, moved), case.advantages()
    results = []
    for algorithm in (GSPO(**same), GRPO(**same)):
        controls = algorithm.controls()
        loss = algorithm.policy_loss(case.dist(logits), case.flat, advantages, controls).loss
        kept = torch.where(case.flat.valid, loss, 0.0)
        results.append((kept, torch.autograd.grad(kept.sum(), logits)[0]))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_the_order_of_the_states_and_other_games_do_not_matter() -> None:
    case = games_case(GSPO(group_size=4, clip_range=0.1, clip_range_high=0.2))
    logits, advantages = learner(case, 0.5).detach(), case.advantages()
    whole = case.algorithm.policy_loss(
        case.dist(logits), case.flat, advantages, case.algorithm.controls()
    ).loss
    order = torch.randperm(case.flat.num_states, generator=torch.Generator().manual_seed(1))
    chosen = order[torch.isin(case.flat.games[order], torch.tensor([1, 4, 7]))]
    part = dataclasses.replace(case, flat=case.flat.select(chosen))
    loss = case.algorithm.policy_loss(
        part.dist(logits[chosen]), part.flat, advantages[chosen], case.algorithm.controls()
    ).loss
    torch.testing.assert_close(loss, whole[chosen], rtol=1e-12, atol=1e-15)


def test_positions_are_refused_with_the_reason_before_a_run_begins() -> None:
    message = (
        r"rollout\.form is 'positions', .*gspo would be grpo; set rollout\.form to games, or train"
    )
    case = random_case(GRPO())
    with pytest.raises(ValueError, match=message):
        GSPO().advantages(case.batch)
    run = TrainConfig(algorithm=GSPO(), env=EnvConfig(evaluator="builtin"))
    with pytest.raises(ValueError, match=message):
        check_settings(run)
    check_settings(dataclasses.replace(run, rollout=RolloutConfig(form="games")))


@pytest.mark.parametrize("credit", ["outcome", "return_to_go", "step"])
def test_every_credit_is_grpo_s(credit: Any) -> None:
    batch = games_case(GSPO(group_size=4)).batch
    expected = GRPO(credit=credit, gamma=0.5).advantages(batch)
    assert torch.equal(GSPO(credit=credit, gamma=0.5).advantages(batch), expected)


def test_a_game_weighs_the_same_whatever_its_length() -> None:
    batch = games_case(GSPO(group_size=4)).batch
    weights = GSPO().weights(batch)
    torch.testing.assert_close(weights.sum(-1), torch.full((3, 4), 1 / 12).double())
    assert len(batch.valid.sum(-1).unique()) > 1
