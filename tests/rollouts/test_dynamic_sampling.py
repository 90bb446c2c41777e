"""Dead groups are replaced by live ones, whole, and everything that was scored counts."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from algorithms.core.batch import RolloutBatch
from algorithms.rollouts.collect import (
    MAX_EXTRA_ROLLOUTS,
    collect_live,
    live_groups,
    replace_groups,
)
from tests.small import make_batch


def with_dead(batch: RolloutBatch, dead: list[int]) -> RolloutBatch:
    """The batch with equal rewards in some groups and different ones in all others."""
    axes = 2 if batch.form == "positions" else 1
    rewards = torch.rand(batch.rewards.shape, generator=torch.Generator().manual_seed(9)) + 1
    flat = rewards.reshape(-1, *rewards.shape[axes:])
    flat[dead] = 0.5
    return dataclasses.replace(batch, rewards=flat.reshape(batch.rewards.shape))


def group(batch: RolloutBatch, values: Tensor, number: int) -> Tensor:
    axes = 2 if batch.form == "positions" else 1
    return values.reshape(-1, *values.shape[axes:])[number]


def test_a_group_is_dead_where_all_its_valid_rewards_are_equal() -> None:
    batch = with_dead(make_batch(), [1, 4])
    assert (~live_groups(batch)).reshape(-1).nonzero().squeeze(-1).tolist() == [1, 4]
    rewards, valid = batch.rewards.clone(), batch.valid.clone()
    rewards[0, 1, 2], valid[0, 1, 2] = 7.0, False
    hidden = dataclasses.replace(batch, rewards=rewards, valid=valid)
    assert torch.equal(live_groups(hidden), live_groups(batch))
    games = with_dead(make_batch("games"), [1])
    assert live_groups(games).tolist() == [True, False]


@pytest.mark.parametrize("form", ["positions", "games"])
def test_a_replaced_group_comes_over_whole_and_the_others_stay(form: str) -> None:
    batch, source = make_batch(form, seed=0), make_batch(form, seed=1)
    assert batch.legal_ids.shape != source.legal_ids.shape
    mixed = replace_groups(batch, source, torch.tensor([0]), torch.tensor([1]))
    width = max(batch.legal_ids.shape[-1], source.legal_ids.shape[-1])
    assert mixed.legal_ids.shape[-1] == width
    for field in dataclasses.fields(batch):
        ours, theirs, new = (getattr(b, field.name) for b in (batch, source, mixed))
        if not isinstance(ours, Tensor):
            continue
        for old, number, place in ((theirs, 1, 0), (ours, 1, 1)):
            expected, found = group(batch, old, number), group(batch, new, place)
            if field.name in ("legal_ids", "old_legal_logprobs"):
                cut = expected.shape[-1]
                assert (group(batch, mixed.legal_ids, place)[..., cut:] == -1).all()
                found = found[..., :cut]
            assert torch.equal(found, expected), field.name


def test_a_longer_game_makes_room_for_itself() -> None:
    batch, source = make_batch("games", seed=0), make_batch("games", seed=1)
    short = dataclasses.replace(
        batch,
        **{
            field.name: value[:, :, :2]
            for field in dataclasses.fields(batch)
            if isinstance(value := getattr(batch, field.name), Tensor)
        },
    )
    mixed = replace_groups(short, source, torch.tensor([1]), torch.tensor([0]))
    assert mixed.rewards.shape == (2, 4, 3)
    assert not mixed.valid[0, :, 2].any() and mixed.valid[1].all()
    assert (mixed.legal_ids[0, :, 2] == -1).all()
    assert mixed.scored_moves == 4 * 2 + 4 * 3


def test_dead_groups_are_replaced_and_every_scored_move_counts() -> None:
    first, second = with_dead(make_batch(), [0, 5]), with_dead(make_batch(seed=1), [0])
    wanted: list[int] = []

    def further(groups: int) -> RolloutBatch:
        wanted.append(groups)
        return second

    collected = collect_live(first, further, lambda moves: True)
    assert wanted == [2]
    assert live_groups(collected.batch).all()
    assert collected.metrics == {"rollout/groups_replaced": 2.0, "rollout/extra_rollouts": 1.0}
    assert (collected.scored_moves, collected.plies) == (2 * 48, 2 * 12)
    assert collected.batch.scored_moves == 48


def test_a_batch_without_dead_groups_is_left_as_it_is() -> None:
    first = with_dead(make_batch(), [])

    def never(groups: int) -> RolloutBatch:
        raise AssertionError("nothing is to be replaced")

    collected = collect_live(first, never, lambda moves: True)
    assert collected.batch is first and collected.scored_moves == 48


def test_the_number_of_further_rollouts_and_the_budget_bound_the_search() -> None:
    dead = with_dead(make_batch(), list(range(12)))
    spent: list[int] = []
    collected = collect_live(dead, lambda groups: dead, lambda moves: spent.append(moves) or True)  # type: ignore[func-returns-value]
    assert collected.metrics["rollout/extra_rollouts"] == MAX_EXTRA_ROLLOUTS
    assert collected.metrics["rollout/groups_replaced"] == 0
    assert spent == [48, 96, 144]
    poor = collect_live(dead, lambda groups: dead, lambda moves: moves < 50)
    assert poor.metrics["rollout/extra_rollouts"] == 1


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_reward_that_is_not_finite_is_an_error_and_no_dead_group(broken: float) -> None:
    clean, spoiled = with_dead(make_batch(), [0, 5]), with_dead(make_batch(seed=1), [0])
    spoiled.rewards[2, 1] = broken
    with pytest.raises(ValueError, match="4 of 48 rewards are not finite"):
        collect_live(spoiled, lambda groups: clean, lambda moves: True)
    with pytest.raises(ValueError, match="4 of 48 rewards are not finite"):
        collect_live(clean, lambda groups: spoiled, lambda moves: True)
