"""The line of the learner's log-odds over the sampler's, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from algorithms.core.metrics import batch_metrics, log_odds_line
from tests.core.conftest import all_moves, make_batch

INF = math.inf


def line(learner: list[list[float]], sampler: list[list[float]]) -> tuple[float, float]:
    """(slope, residual) of `[N, L]` log-probabilities."""
    found = log_odds_line(torch.tensor(learner), torch.tensor(sampler))
    assert set(found) == {"ratio/log_odds_slope", "ratio/log_odds_residual"}
    return tuple(float(value) for value in found.values())  # type: ignore[return-value]


def test_one_line_goes_through_all_states_and_padding_counts_for_nothing() -> None:
    # x = (1, 0, -1) and (2, -2), y = (1, 1, -2) and (2, -2): b = (3 + 8) / (2 + 8) = 1.1.
    learner = [[-1.0, -1.0, -4.0], [-1.0, -5.0, -INF]]
    sampler = [[-1.0, -2.0, -3.0], [-2.0, -6.0, -INF]]
    slope, residual = line(learner, sampler)
    left = [1 - 1.1, 1.0, -2 + 1.1, 2 - 2.2, -2 + 2.2]
    assert slope == pytest.approx(1.1)
    assert residual == pytest.approx(math.sqrt(sum(value**2 for value in left) / 5))
    padded = [[*row, -INF] for row in learner], [[*row, -INF] for row in sampler]
    assert line(*padded) == (pytest.approx(slope), pytest.approx(residual))


def test_a_shift_of_a_states_logits_changes_nothing() -> None:
    learner, sampler = (
        [[-1.0, -1.0, -4.0], [0.5, 0.0, -2.0]],
        [[-1.0, -2.0, -3.0], [0.0, -1.0, 3.0]],
    )
    moved = [
        [value + shift for value in row] for row, shift in zip(sampler, (3.0, -7.0), strict=True)
    ]
    assert line(learner, moved) == pytest.approx(line(learner, sampler))


def test_a_uniform_sampler_has_a_slope_of_1_and_the_learners_spread_is_left() -> None:
    assert line([[-1.0, -3.0]], [[-2.0, -2.0]]) == (1.0, 1.0)
    assert line([[0.0, -INF]], [[0.0, -INF]]) == (1.0, 0.0)  # a forced move


@pytest.mark.parametrize("temperature", [0.5, 1.3])
def test_a_temperature_alone_is_its_ratio_in_float32(temperature: float) -> None:
    batch = make_batch(spread=2.0)
    sampler = batch.old_legal_logprobs.flatten(0, -2)
    learner = (sampler / temperature).log_softmax(-1)
    found = log_odds_line(learner, sampler)
    assert float(found["ratio/log_odds_slope"]) == pytest.approx(1 / temperature, rel=1e-5)
    assert float(found["ratio/log_odds_residual"]) < 1e-6


def test_other_moves_of_a_group_are_absent_where_all_moves_are_scored_or_games_are_played() -> None:
    batch = make_batch("positions")
    rewards = torch.zeros_like(batch.legal_ids, dtype=torch.float32)
    for other in (all_moves(batch, rewards), make_batch("games")):
        advantages: Tensor = torch.zeros_like(other.rewards)
        assert "rollout/single_move_fraction" not in batch_metrics(other, advantages)
