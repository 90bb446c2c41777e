from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.buffers import RolloutBuffer
from torch import Tensor

from algorithms.core.advantages import alive, ended, gae
from algorithms.core.batch import RolloutBatch
from algorithms.ppo import PPO
from algorithms.testing.cases import noise_like, random_case


def sb3_advantages(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    white: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """`[B, T]` GAE of Stable-Baselines3's buffer, fed with everything in White's view and mapped back.

    As its collector does, a truncated game's last reward carries gamma times the terminal value.
    """
    boards, plies = rewards.shape
    sign = torch.where(white, 1.0, -1.0).double()
    white_rewards = (sign * rewards.double()).numpy()
    white_values, white_next = sign * values.double(), -sign * next_values.double()
    white_rewards = white_rewards + torch.where(truncated, gamma * white_next, 0.0).numpy()
    box = spaces.Box(0.0, 1.0, (1,))
    buffer = RolloutBuffer(
        plies, box, box, gamma=gamma, gae_lambda=gae_lambda, n_envs=boards, device="cpu"
    )
    over = (terminated | truncated).numpy()
    start = np.ones(boards)
    for t in range(plies):
        nothing = np.zeros((boards, 1))
        value = white_values[:, t].float()
        buffer.add(nothing, nothing, white_rewards[:, t], start, value, torch.zeros(boards))
        start = over[:, t]
    buffer.compute_returns_and_advantage(last_values=white_next[:, -1].float(), dones=over[:, -1])
    return sign * torch.from_numpy(buffer.advantages.T.copy())


@given(
    seed=st.integers(0, 2**31),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    gae_lambda=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    ending=st.sampled_from([0.0, 0.1, 0.5]),
)
@settings(max_examples=80)
def test_generalised_advantages_equal_sb3_s_in_white_s_view(
    seed: int, gamma: float, gae_lambda: float, ending: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (6, 12)
    rewards, values, next_values = torch.randn(3, *shape, generator=generator)
    over = torch.rand(shape, generator=generator) < ending
    terminated = over & (torch.rand(shape, generator=generator) < 0.5)
    truncated = over & ~terminated
    white = torch.zeros(shape, dtype=torch.bool)
    white[:, 0] = torch.rand(6, generator=generator) < 0.5
    for t in range(1, shape[1]):  # a new game may begin with either player
        fresh = torch.rand(6, generator=generator) < 0.5
        white[:, t] = torch.where(over[:, t - 1], fresh, ~white[:, t - 1])
    # While a game goes on, V(s_{t+1}) is the value that the next ply is recorded with.
    goes_on = ~over[:, :-1]
    next_values[:, :-1] = torch.where(goes_on, values[:, 1:], next_values[:, :-1])
    next_values = next_values.masked_fill(terminated, 0.0)
    everywhere = torch.ones(shape, dtype=torch.bool)
    found = gae(rewards, values, next_values, over, everywhere, -gamma, gae_lambda)
    expected = sb3_advantages(
        rewards, values, next_values, terminated, truncated, white, gamma=gamma,
        gae_lambda=gae_lambda,
    )  # fmt: skip
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def game_case(form: str, seed: int) -> RolloutBatch:
    """A batch with endings in both forms, next values as a network would give them."""
    batch = random_case(PPO(), form, seed=seed, dtype=torch.float64).batch
    generator = torch.Generator().manual_seed(seed)
    terminated = torch.rand(batch.terminated.shape, generator=generator) < 0.25
    played = terminated[..., 0] if form == "positions" else terminated
    batch = dataclasses.replace(batch, terminated=terminated, truncated=batch.truncated & ~played)
    if form == "games":
        batch = dataclasses.replace(batch, valid=alive(batch))
    return batch


def true_values(batch: RolloutBatch, gamma: float) -> RolloutBatch:
    """The batch with V(s_t) = r_t - gamma V(s_{t+1}): what play in fact brought."""
    played = batch.rewards[..., 0] if batch.form == "positions" else batch.rewards
    over = ended(batch)
    terminated = batch.terminated[..., 0] if batch.form == "positions" else batch.terminated
    assert batch.next_values is not None
    values = torch.zeros_like(played)
    next_values = batch.next_values.masked_fill(terminated, 0.0)
    for t in range(played.shape[-1] - 1, -1, -1):
        if t + 1 < played.shape[-1]:
            goes_on = ~over[..., t]
            next_values[..., t] = torch.where(goes_on, values[..., t + 1], next_values[..., t])
        values[..., t] = played[..., t] - gamma * next_values[..., t]
    return dataclasses.replace(batch, values=values, next_values=next_values)


@pytest.mark.parametrize("form", ["positions", "games"])
@pytest.mark.parametrize("seed", range(5))
def test_a_critic_that_knows_the_return_leaves_no_advantage(form: str, seed: int) -> None:
    for gamma, gae_lambda in ((0.99, 0.95), (1.0, 1.0), (0.0, 0.5)):
        batch = true_values(game_case(form, seed), gamma)
        advantages = PPO(gamma=gamma, gae_lambda=gae_lambda).advantages(batch)
        torch.testing.assert_close(advantages, torch.zeros_like(advantages), rtol=0, atol=1e-12)


def test_the_return_is_the_advantage_plus_the_value() -> None:
    """What the critic is trained on with gae_lambda 1 and no end: all rewards to come."""
    batch = game_case("games", 0)
    nothing = torch.zeros_like(batch.valid)
    batch = dataclasses.replace(
        batch, terminated=nothing, truncated=nothing, valid=~nothing,
        next_values=torch.zeros_like(batch.rewards),
    )  # fmt: skip
    batch = true_values(batch, 0.9)
    assert batch.values is not None
    wrong = dataclasses.replace(batch, values=noise_like(batch.values))
    assert wrong.values is not None
    wrong = dataclasses.replace(
        wrong,
        next_values=torch.cat([wrong.values[..., 1:], torch.zeros_like(wrong.values[..., :1])], -1),
    )
    advantages = PPO(gamma=0.9, gae_lambda=1.0).advantages(wrong)
    torch.testing.assert_close(advantages + wrong.values, batch.values)
