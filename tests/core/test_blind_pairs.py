"""The share of pairs that the scores tell apart and the rewards do not, by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from algorithms.core.batch import RolloutBatch
from algorithms.core.metrics import batch_metrics, blind_pairs
from tests.core.conftest import all_moves, make_batch


def scored(batch: RolloutBatch, score_cp: torch.Tensor, rewards: torch.Tensor) -> RolloutBatch:
    """The batch with these scores and rewards, from positions of score 0."""
    return dataclasses.replace(
        batch,
        score_cp=score_cp.to(torch.int32),
        before_cp=torch.zeros(batch.obs.shape[:-3], dtype=torch.int32),
        rewards=rewards.float(),
    )


def blind_fraction(batch: RolloutBatch) -> float | None:
    """What the row of the record holds."""
    return batch_metrics(batch, torch.zeros_like(batch.rewards)).get("rollout/blind_fraction")


def one_group(score_cp: list[float], rewards: list[float], members: int = 4) -> RolloutBatch:
    """A positions batch of which only the first state's first `members` samples count."""
    batch = make_batch("positions")
    scores, paid = torch.full((3, 2, 4), 9_999), torch.full((3, 2, 4), math.nan)
    scores[0, 0, :members] = torch.tensor(score_cp)
    paid[0, 0, :members] = torch.tensor(rewards)
    valid = torch.zeros(3, 2, 4, dtype=torch.bool)
    valid[0, 0, :members] = True
    return dataclasses.replace(scored(batch, scores, paid), valid=valid)


def test_pairs_that_the_scores_tell_apart_are_blind_where_the_rewards_hardly_differ() -> None:
    # Apart by 50 cp or more: (0, 50), (0, 500), (0, 549), (50, 500), (50, 549); not (500, 549).
    # Their rewards: .02 (2 %), 1, 1.005, .98, .985 of at most 1.005. None is blind.
    seeing = one_group([0, 50, 500, 549], [0.0, 0.02, 1.0, 1.005])
    assert blind_fraction(seeing) == 0
    # (0, 50) .005 of 1.005 is blind, and it alone of the five.
    assert blind_fraction(one_group([0, 50, 500, 549], [0.0, 0.005, 1.0, 1.005])) == 0.2


def test_a_score_beyond_2000_is_2000() -> None:
    batch = one_group([9_990, 2_030, 1_940, -9_990], [1.0, 1.0, 1.0, -1.0])
    # (9990, 2030) are no pair; (9990, 1940) and (2030, 1940) are blind; three see the lost move.
    assert blind_fraction(batch) == pytest.approx(2 / 5)


def test_the_yardstick_is_the_largest_difference_within_any_group_of_the_rollout() -> None:
    batch = make_batch("positions")
    scores = torch.tensor([0.0, 100.0, 0.0, 100.0]).expand(3, 2, 4)
    rewards = torch.tensor([0.0, 0.3, 0.0, 0.3]).repeat(3, 2, 1)
    assert blind_fraction(scored(batch, scores, rewards)) == 0
    rewards[1, 1] = torch.tensor([0.0, 31.0, 0.0, 31.0])  # .3 is less than 1 % of 31
    assert blind_fraction(scored(batch, scores, rewards)) == pytest.approx(5 / 6)
    # The distance between groups is no yardstick.
    rewards[1, 1] = torch.tensor([31.0, 31.3, 31.0, 31.3])
    assert blind_fraction(scored(batch, scores, rewards)) == 0


def test_rewards_that_are_all_equal_see_nothing() -> None:
    assert blind_fraction(one_group([0, 100, 200, 300], [0.5] * 4)) == 1


def test_games_of_a_group_are_compared_on_their_first_ply_alone() -> None:
    batch = make_batch("games")
    scores = torch.zeros(3, 4, 2)
    scores[..., 0] = torch.tensor([0.0, 100.0, 200.0, 200.0])
    scores[..., 1] = torch.tensor([0.0, 1_000.0, 100.0, -100.0])
    rewards = torch.zeros(3, 4, 2)
    rewards[..., 0] = torch.tensor([0.0, 0.0, 1.0, 1.0])
    # Five pairs of games are 100 cp or more apart, the first two of a start get one reward.
    assert blind_fraction(scored(batch, scores, rewards)) == pytest.approx(1 / 5)


@pytest.mark.parametrize("form", ["positions", "games"])
def test_without_scores_or_without_such_a_pair_there_is_no_blind_fraction(form: str) -> None:
    batch = make_batch(form)
    assert blind_pairs(batch) is None
    assert blind_fraction(batch) is None
    close = torch.arange(float(batch.rewards.numel())).reshape(batch.rewards.shape)
    assert blind_fraction(scored(batch, close, close)) is None  # 24 samples, 1 cp from one to next


def test_a_single_member_makes_no_pair() -> None:
    assert blind_fraction(one_group([0], [1.0], members=1)) is None


def test_where_all_moves_are_scored_no_pair_is_looked_at() -> None:
    batch = make_batch("positions")
    values = 100 * torch.arange(6.0).expand(3, 2, 6)
    scores = {"score_cp": values.int(), "before_cp": torch.zeros(3, 2, dtype=torch.int32)}
    every = dataclasses.replace(all_moves(batch, values), **scores)
    metrics = batch_metrics(every, torch.zeros_like(every.rewards))
    assert "rollout/blind_fraction" not in metrics
    assert "rollout/reward_median" in metrics
