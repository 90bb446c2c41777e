from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.buffers import RolloutBuffer
from torch import Tensor

from algorithms.core.advantages import alive, ended, gae
from algorithms.core.algorithm import Controls
from algorithms.core.batch import RolloutBatch
from algorithms.ppo import PPO
from algorithms.testing.cases import noise_like, random_case
from tests.zoo.case_loss import batch_loss


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
@settings(max_examples=80, deadline=None)
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


def test_with_expected_values_the_one_ply_advantages_average_to_zero_under_the_policy() -> None:
    algorithm = PPO(group_size=4, gamma=0.0)
    case = random_case(algorithm, dtype=torch.float64)
    probs = case.batch.old_legal_logprobs.exp()
    table = noise_like(probs)
    values = (probs * table).sum(-1)
    width = probs.shape[-1]
    everything = dataclasses.replace(
        case.batch,
        values=values,
        rewards=table,
        slots=torch.arange(width).expand_as(probs),
        **dict.fromkeys(("actions", "old_logprobs"), torch.zeros_like(probs)),
        **dict.fromkeys(("terminated", "valid"), case.batch.legal_ids >= 0),
    )
    advantages = algorithm.advantages(everything)
    torch.testing.assert_close((probs * advantages).sum(-1), torch.zeros_like(values))


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


def test_one_sample_and_several_agree_at_gamma_0() -> None:
    batch = random_case(PPO(group_size=4, gamma=0.0)).batch
    several = PPO(group_size=4, gamma=0.0).advantages(batch)
    by_member = ("slots", "actions", "old_logprobs", "rewards", "terminated", "valid")
    for member in range(4):
        kept = {name: getattr(batch, name)[..., member : member + 1] for name in by_member}
        one = PPO(gamma=0.0).advantages(dataclasses.replace(batch, **kept))
        torch.testing.assert_close(one, several[..., member : member + 1])


def test_normalised_advantages_do_not_depend_on_the_reward_s_unit_or_offset() -> None:
    case = random_case(PPO(), dtype=torch.float64)
    scaled = 100.0 * case.advantages() + 7.0
    moved = case.logits + noise_like(case.logits)
    torch.testing.assert_close(
        batch_loss(case, moved, advantages=scaled), batch_loss(case, moved), rtol=1e-6, atol=0
    )
    raw = dataclasses.replace(case, algorithm=PPO(normalize_advantages=False))
    assert float(batch_loss(raw, moved, advantages=scaled)) != pytest.approx(
        float(batch_loss(raw, moved))
    )


def test_a_larger_upper_bound_in_controls_lets_a_larger_ratio_through() -> None:
    case = random_case(PPO(normalize_advantages=False), dtype=torch.float64, temperature=1.0)
    moved = case.logits + 0.4 * torch.nn.functional.one_hot(
        case.flat.slots[:, 0], case.logits.shape[-1]
    )
    advantages = torch.ones_like(case.advantages())

    def used(make: Callable[[], Controls]) -> int:
        logits = moved.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(batch_loss(case, logits, make(), advantages), logits)
        return int(gradient.any(-1).sum())

    narrow = used(lambda: Controls(clip_low=0.2, clip_high=0.05))
    assert narrow < used(case.algorithm.controls) < used(Controls)


def test_several_samples_of_a_position_need_gamma_0_and_whole_games_do_not() -> None:
    algorithm = PPO(group_size=4)
    with pytest.raises(ValueError, match=r"gamma is 0\.99 with 4 samples per position"):
        algorithm.advantages(random_case(algorithm).batch)
    assert algorithm.advantages(random_case(algorithm, "games").batch).any()
