from __future__ import annotations

import dataclasses

import pytest
import torch

from algorithms.core.losses import (
    REDUCTIONS,
    constant_length,
    game_mean,
    reduction_weights,
    sample_mean,
    state_sum,
)
from tests.core.conftest import make_batch

# Two starts x two games x three plies: lengths 3, 1, 2 and a game that is not trained on.
GAMES = torch.tensor(
    [[[True, True, True], [True, False, False]], [[True, True, False], [False, False, False]]]
)


def test_the_sample_mean_weighs_every_valid_sample_the_same() -> None:
    torch.testing.assert_close(sample_mean(GAMES), GAMES / 6)


def test_the_game_mean_weighs_every_game_the_same() -> None:
    weights = game_mean(GAMES)
    torch.testing.assert_close(weights.sum(-1), torch.tensor([[1 / 3, 1 / 3], [1 / 3, 0.0]]))
    torch.testing.assert_close(weights[0, 0], torch.full((3,), 1 / 9))
    assert (weights[~GAMES] == 0).all()


def test_constant_length_divides_by_games_times_plies_whatever_was_played() -> None:
    weights = constant_length(GAMES)
    torch.testing.assert_close(weights, GAMES / 12)  # 4 games of at most 3 plies
    assert float(weights.sum()) == pytest.approx(0.5)


def test_the_state_sum_adds_a_state_s_samples_and_averages_the_states() -> None:
    legal = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    torch.testing.assert_close(state_sum(legal), legal / 2)
    assert float(state_sum(legal).sum()) == pytest.approx(2.0)  # (3 + 1) / 2


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_in_positions_form_a_ply_is_a_game_so_all_reductions_agree(reduction: str) -> None:
    batch = make_batch("positions")
    weights = reduction_weights(batch, reduction)  # type: ignore[arg-type]
    torch.testing.assert_close(weights, sample_mean(batch.valid))


def test_in_games_form_the_reductions_differ_where_games_differ_in_length() -> None:
    batch = make_batch("games")
    valid = batch.valid.clone()
    valid[0, 0, 1:] = False
    batch = dataclasses.replace(batch, valid=valid)
    torch.testing.assert_close(reduction_weights(batch, "game_mean"), game_mean(valid))
    assert float(reduction_weights(batch, "game_mean")[0, 0, 0]) == pytest.approx(1 / 12)
    assert float(reduction_weights(batch, "sample_mean")[0, 0, 0]) == pytest.approx(1 / 23)
    assert float(reduction_weights(batch, "constant_length")[0, 0, 0]) == pytest.approx(1 / 24)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_as_precise_as_they_are_asked_to_be(dtype: torch.dtype) -> None:
    for make in (sample_mean, game_mean, constant_length, state_sum):
        assert make(GAMES, dtype).dtype == dtype
        assert make(GAMES).dtype == torch.get_default_dtype()
    assert float(sample_mean(GAMES, torch.float64)[0, 0, 0]) == 1 / 6


def test_an_unknown_reduction_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"'mean_game'.*did you mean 'game_mean'"):
        reduction_weights(make_batch("games"), "mean_game")  # type: ignore[arg-type]
