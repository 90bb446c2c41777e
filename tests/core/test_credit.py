from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from algorithms.core.advantages import (
    actor_critic,
    alive,
    credited,
    outcome,
    return_to_go,
    start_sign,
)
from algorithms.core.batch import RolloutBatch, blank_batch
from tests.core.conftest import make_batch


def games(
    rewards: Tensor, *, ends: dict[int, int] | None = None, truncated: bool = False
) -> RolloutBatch:
    """One start; `rewards` `[G, T]`; `ends` maps a game to its last ply; players alternate."""
    number, plies = rewards.shape
    batch = make_batch("games")
    terminated = torch.zeros(1, number, plies, dtype=torch.bool)
    for game, last in (ends or {}).items():
        terminated[0, game, last] = True
    over = terminated.int()
    side = (torch.arange(plies) % 2 == 0).to(torch.int8).expand(1, number, plies)
    states = (1, number, plies)
    shaped = ("obs", "legal_ids", "slots", "actions", "old_logprobs", "old_legal_logprobs")
    wide = {
        name: getattr(batch, name)[:1, :1, :1].expand(*states, *getattr(batch, name).shape[3:])
        for name in (*shaped, "ply", "phase")
    }
    return dataclasses.replace(
        batch,
        **wide,
        rewards=rewards[None],
        terminated=terminated & (not truncated),
        truncated=terminated & truncated,
        valid=over.cumsum(-1) - over == 0,
        side=side,
    )


REWARDS = torch.tensor([[1.0, 2.0, 4.0, 8.0], [1.0, 3.0, 5.0, 7.0]])


def test_a_game_is_alive_up_to_and_with_its_last_ply() -> None:
    for truncated in (False, True):
        batch = games(REWARDS, ends={0: 1}, truncated=truncated)
        assert alive(batch).tolist() == [[[True, True, False, False], [True] * 4]]


def test_plies_that_are_not_trained_on_are_alive_too() -> None:
    batch = games(REWARDS, ends={0: 2})
    batch = dataclasses.replace(batch, valid=torch.zeros_like(batch.valid))
    assert alive(batch).tolist() == [[[True, True, True, False], [True] * 4]]


def test_the_sign_follows_the_player_who_began_whoever_that_is() -> None:
    batch = games(REWARDS)
    assert start_sign(batch)[0, 0].tolist() == [1.0, -1.0, 1.0, -1.0]
    black = dataclasses.replace(batch, side=1 - batch.side)
    assert torch.equal(start_sign(black), start_sign(batch))


def test_the_outcome_is_the_signed_sum_in_each_mover_s_view() -> None:
    batch = games(REWARDS, ends={0: 2})
    # game 0: 1 - 2 + 4 = 3; game 1: 1 - 3 + 5 - 7 = -4
    assert outcome(batch).tolist() == [[[3.0, -3.0, 3.0, 0.0], [-4.0, 4.0, -4.0, 4.0]]]


def test_the_outcome_counts_the_opponent_s_plies_that_are_not_trained_on() -> None:
    batch = games(REWARDS)
    own = batch.valid & (start_sign(batch) > 0)
    assert torch.equal(outcome(dataclasses.replace(batch, valid=own)), outcome(batch))


def test_the_return_to_go_by_hand() -> None:
    batch = games(REWARDS, ends={0: 2})
    # game 0: R2 = 4, R1 = 2 - 2 = 0, R0 = 1 - 0; game 1: 7, 5 - 3.5, 3 - .75, 1 - 1.125
    assert return_to_go(batch, 0.5).tolist() == [[[1.0, 0.0, 4.0, 0.0], [-0.125, 2.25, 1.5, 7.0]]]


def test_what_follows_the_end_of_a_game_is_never_looked_at() -> None:
    dirty = REWARDS.clone()
    dirty[0, 3] = torch.nan
    clean, batch = games(REWARDS, ends={0: 2}), games(dirty, ends={0: 2})
    assert torch.equal(outcome(batch), outcome(clean))
    assert torch.equal(return_to_go(batch, 0.9), return_to_go(clean, 0.9))


def test_step_credit_is_the_reward_itself_in_both_forms() -> None:
    for form in ("positions", "games"):
        batch = make_batch(form)
        assert credited(batch, "step", 0.5) is batch.rewards


@pytest.mark.parametrize("credit", ["outcome", "return_to_go"])
def test_a_one_ply_game_can_carry_no_other_credit_than_the_step(credit: str) -> None:
    with pytest.raises(ValueError, match=rf"{credit}.*'positions'.*rollout\.form to 'games'"):
        credited(make_batch("positions"), credit, 1.0)  # type: ignore[arg-type]


def test_an_unknown_credit_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"'return_togo'.*did you mean 'return_to_go'"):
        credited(make_batch("games"), "return_togo", 1.0)  # type: ignore[arg-type]


def with_values(batch: RolloutBatch, seed: int = 0) -> RolloutBatch:
    generator = torch.Generator().manual_seed(seed)
    values, following = torch.randn(2, *batch.side.shape, generator=generator)
    return dataclasses.replace(batch, values=values, next_values=following)


def test_the_actor_critic_learns_over_plies_that_are_not_trained_on() -> None:
    batch = with_values(games(REWARDS, ends={0: 2}))
    own = batch.valid & (start_sign(batch) > 0)
    found = actor_critic(dataclasses.replace(batch, valid=own), 0.9, 0.8)
    assert torch.equal(found, torch.where(own, actor_critic(batch, 0.9, 0.8), 0.0))
    assert batch.values is not None
    assert float(found[0, 0, 2]) == pytest.approx(4 - 0.9 * batch_next(batch) - value(batch))


def value(batch: RolloutBatch) -> float:
    assert batch.values is not None
    return float(batch.values[0, 0, 2])


def batch_next(batch: RolloutBatch) -> float:
    assert batch.next_values is not None
    return float(batch.next_values[0, 0, 2])


def test_with_gamma_0_every_sample_of_a_position_gets_reward_minus_value() -> None:
    batch = with_values(make_batch("positions"))
    assert batch.values is not None
    expected = batch.rewards - batch.values[..., None]
    torch.testing.assert_close(actor_critic(batch, 0.0, 0.95), expected)


def test_samples_whose_successors_nobody_visited_need_gamma_0() -> None:
    batch = with_values(make_batch("positions"))
    with pytest.raises(ValueError, match=r"gamma is 0\.99 with 4 samples.*set gamma to 0"):
        actor_critic(batch, 0.99, 0.95)


def test_a_batch_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="no values.*value head"):
        actor_critic(make_batch("games"), 0.99, 0.95)


@pytest.mark.parametrize(("alternating", "discount"), [(True, -0.5), (False, 0.5)])
def test_the_next_value_changes_its_sign_only_where_players_take_turns(
    alternating: bool, discount: float
) -> None:
    batch = dataclasses.replace(
        blank_batch("positions", (1, 2)),
        rewards=torch.tensor([[[1.0], [2.0]]]),
        values=torch.tensor([[0.5, 0.25]]),
        next_values=torch.tensor([[0.25, 4.0]]),
        alternating=alternating,
    )
    last = 2.0 + discount * 4.0 - 0.25
    first = 1.0 + discount * 0.25 - 0.5 + discount * 0.8 * last
    torch.testing.assert_close(actor_critic(batch, 0.5, 0.8), torch.tensor([[[first], [last]]]))
