"""Rewards: hand-computed values, oddness, telescoping, and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chess_env.rewards import (
    MATE_SCORE_CP,
    REWARDS,
    VALUE,
    can_be_success,
    make_reward,
    terminal_score_cp,
    value,
)

CHECKMATE, STALEMATE = 1, 2
SCORES = st.lists(st.integers(-MATE_SCORE_CP, MATE_SCORE_CP), min_size=2, max_size=30)


def test_win_prob_is_the_lichess_formula() -> None:
    assert value(100) == np.float32(2 / (1 + math.exp(-0.368208)) - 1)
    assert value(0) == 0
    assert value(-10_000) == -1
    assert value(9_999) == 1


def test_clipped_transforms_have_their_documented_units() -> None:
    scores_cp = np.array([-3000, -500, 250, 1000, 9_999])
    np.testing.assert_array_equal(value(scores_cp, "cp"), np.float32([-2, -0.5, 0.25, 1, 2]))
    np.testing.assert_array_equal(
        value(scores_cp, "clip2000"), np.float32([-1, -0.25, 0.125, 0.5, 1])
    )
    np.testing.assert_array_equal(value(scores_cp, "clip500"), np.float32([-1, -1, 0.5, 1, 1]))


@pytest.mark.parametrize("transform", [name for name in VALUE if name != "mate"])
def test_every_transform_but_that_of_mates_is_odd_and_rises_with_the_score(transform: str) -> None:
    table = VALUE[transform]
    assert table.shape == (20_001,) and table.dtype == np.float32
    np.testing.assert_array_equal(table, -table[::-1])
    assert (np.diff(table) >= 0).all()
    assert table[-1] > 0.99


def test_asinh_never_saturates_and_a_mate_is_worth_more_than_any_material() -> None:
    table = VALUE["asinh400"]
    assert (np.diff(table) > 0).all() and table[-1] == 1
    assert value(400, "asinh400") == pytest.approx(math.asinh(1) / math.asinh(25))
    # A queen more counts where win probability has long stopped to pay.
    assert value(5_900, "asinh400") - value(5_000, "asinh400") > 0.03
    assert value(5_900) - value(5_000) < 1e-6


def test_each_move_nearer_to_mate_is_paid_alike_and_other_scores_are_not() -> None:
    """.011 (8 - n) for mate in n; a mate beyond 38 moves counts as one in 38."""
    table = VALUE["mate"]
    np.testing.assert_array_equal(table, -table[::-1])
    mates = value(np.array([10_000, 9_999, 9_997, 9_992, 9_990, 9_972, 9_962, 9_810]), "mate")
    wanted = [0.088, 0.077, 0.055, 0, -0.022, -0.22, -0.33, -0.33]
    np.testing.assert_allclose(mates, wanted, atol=1e-7)
    np.testing.assert_array_equal(value(np.arange(-9_800, 9_801), "mate"), 0)


def test_a_win_is_paid_for_each_move_of_progress_and_the_best_defence_pays_nothing() -> None:
    reward = make_reward("win_prob_delta+mate_delta", has_evaluator=True)
    going = np.zeros(4, np.int8)
    before_cp = np.array([9_990, 9_990, 9_990, -9_990])  # mate in 10, three times; mated in 10
    after_cp = np.array([-9_991, -9_990, -9_000, 9_990])
    total, _ = reward(going, False, before_cp, after_cp)
    np.testing.assert_allclose(total, [0.011, 0, 0.022, 0], atol=1e-6)
    lost, _ = reward(going[:1], False, before_cp[:1], np.array([0]))  # the queen is gone
    assert lost[0] < -0.97


def test_a_delta_is_minus_the_next_value_minus_this_value_in_self_play() -> None:
    reward = make_reward("win_prob_delta", has_evaluator=True)
    total, terms = reward(np.int8([0, CHECKMATE]), False, [30, 400], [50, -10_000])
    expected = [-value(50) - value(30), np.float32(1) - value(400)]
    np.testing.assert_array_equal(total, np.float32(expected))
    np.testing.assert_array_equal(terms["win_prob_delta"], total)


def test_a_delta_is_the_next_value_minus_this_value_when_the_learner_moves_again() -> None:
    reward = make_reward("cp_delta", has_evaluator=True)
    total, _ = reward(np.int8([0]), True, [300], [-200])
    np.testing.assert_allclose(total, [-0.5], atol=1e-6)


@given(SCORES)
def test_the_alternating_sum_of_self_play_rewards_telescopes(scores_cp: list[int]) -> None:
    reward = make_reward("win_prob_delta", has_evaluator=True)
    before, after = np.array(scores_cp[:-1]), np.array(scores_cp[1:])
    total, _ = reward(np.zeros(len(before), np.int8), False, before, after)
    sign = (-1.0) ** np.arange(len(total))
    last = -sign[-1] * value(scores_cp[-1])
    assert math.isclose((sign * total).sum(), last - value(scores_cp[0]), abs_tol=1e-5)


@given(SCORES)
def test_the_plain_sum_of_opponent_mode_rewards_telescopes(scores_cp: list[int]) -> None:
    reward = make_reward("tanh400_delta", has_evaluator=True)
    before, after = np.array(scores_cp[:-1]), np.array(scores_cp[1:])
    total, _ = reward(np.zeros(len(before), np.int8), True, before, after)
    expected = value(scores_cp[-1], "tanh400") - value(scores_cp[0], "tanh400")
    assert math.isclose(total.sum(dtype=np.float64), expected, abs_tol=1e-5)


def test_outcome_pays_the_mating_side_and_charges_the_mated_learner() -> None:
    reward = make_reward("outcome", has_evaluator=False)
    status = np.int8([CHECKMATE, CHECKMATE, STALEMATE, 0])
    total, _ = reward(status, np.array([False, True, False, True]))
    np.testing.assert_array_equal(total, np.float32([1, -1, 0, 0]))


def test_regret_is_zero_for_a_best_move_and_negative_otherwise() -> None:
    reward = make_reward("regret", has_evaluator=True)
    total, _ = reward(np.int8([0, 0]), False, move_scores=([80, 80], [80, -120]))
    np.testing.assert_array_equal(total, np.float32([0, value(-120) - value(80)]))
    assert reward.needs_move_scores and not reward.needs_scores


def test_success_is_a_fall_of_the_win_probability_by_less_than_five_points() -> None:
    """From an even position 54 centipawns are 4.98 points of Win%, and 55 are 5.07."""
    reward = make_reward("success", has_evaluator=True)
    after = np.array([-54, -55, 0, 300, -10_000])  # the mover's view
    going = np.zeros(5, np.int8)
    total, terms = reward(going, False, np.zeros(5, int), -after)
    np.testing.assert_array_equal(total, np.float32([1, 0, 1, 1, 0]))
    assert total.dtype == np.float32 and list(terms) == ["success"]
    again, _ = reward(going, True, np.zeros(5, int), after)  # the learner is to move again
    np.testing.assert_array_equal(again, total)


def test_a_lost_position_can_hardly_be_failed_and_a_won_one_can() -> None:
    reward = make_reward("success", has_evaluator=True)
    before, after = np.array([-1500, 1500, 9_990]), np.array([-9_995, 300, 2_000])
    total, _ = reward(np.zeros(3, np.int8), False, before, -after)
    np.testing.assert_array_equal(total, np.float32([1, 0, 1]))
    mate, _ = reward(np.int8([CHECKMATE]), False, [200], [-10_000])
    drawn, _ = reward(np.int8([STALEMATE]), False, [200], [0])
    assert mate[0] == 1 and drawn[0] == 0


@given(
    st.lists(st.tuples(*[st.integers(-MATE_SCORE_CP, MATE_SCORE_CP)] * 2), min_size=1, max_size=20)
)
def test_success_is_read_off_the_change_of_the_win_probability(
    scores: list[tuple[int, int]],
) -> None:
    before, after = np.array(scores).T
    going = np.zeros(len(scores), np.int8)
    paid, _ = make_reward("success", has_evaluator=True)(going, False, before, after)
    delta, _ = make_reward("win_prob_delta", has_evaluator=True)(going, False, before, after)
    np.testing.assert_array_equal(paid, (delta > np.float32(-0.1)).astype(np.float32))


def test_which_rewards_can_be_success_and_failure_alone() -> None:
    for reward in ("success", "outcome", "mine:solved", "success+mine:penalty", "1*success"):
        assert can_be_success(reward), reward
    for reward in ("win_prob_delta", "0.5*success", "success+outcome", "regret", "-success"):
        assert not can_be_success(reward), reward


def test_a_mapping_adds_up_weighted_terms_and_reports_the_raw_ones() -> None:
    reward = make_reward({"win_prob_delta": 0.5, "outcome": 2}, has_evaluator=True)
    total, terms = reward(np.int8([CHECKMATE]), False, [0], [-10_000])
    assert terms == {"win_prob_delta": np.float32([1]), "outcome": np.float32([1])}
    np.testing.assert_array_equal(total, np.float32([2.5]))
    assert total.dtype == np.float32


def test_terms_do_not_depend_on_how_boards_are_batched() -> None:
    rng = np.random.default_rng(0)
    names = {name: rng.normal() for name in REWARDS}
    reward = make_reward(names, has_evaluator=True)
    status = rng.integers(0, 4, 50).astype(np.int8)
    same = rng.integers(0, 2, 50).astype(bool)
    scores = rng.integers(-10_000, 10_001, (4, 50))
    total, _ = reward(status, same, scores[0], scores[1], (scores[2], scores[3]))
    for i in range(50):
        j = slice(i, i + 1)
        single, _ = reward(
            status[j], same[j], scores[0, j], scores[1, j], (scores[2, j], scores[3, j])
        )
        assert single[0] == total[i]


def test_ended_games_score_minus_10000_for_the_mated_side_and_0_for_draws() -> None:
    np.testing.assert_array_equal(terminal_score_cp([1, 2, 3, 4, 5]), [-10_000, 0, 0, 0, 0])


def test_the_default_reward_depends_on_whether_there_is_an_evaluator() -> None:
    assert make_reward(None, has_evaluator=True).names == ("win_prob_delta", "mate_delta")
    assert make_reward(None, has_evaluator=False).names == ("outcome",)


@pytest.mark.parametrize(
    ("reward", "has_evaluator", "message"),
    [
        ("win", True, "reward term is 'win'"),
        ({}, True, "empty mapping"),
        ({"outcome": float("nan")}, True, "is nan"),
        ("regret", False, "evaluator is 'none'"),
        ({"outcome": 1, "cp_delta": 1}, False, "use reward='outcome'"),
    ],
)
def test_bad_rewards_name_the_value_and_the_remedy(
    reward: object, has_evaluator: bool, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_reward(reward, has_evaluator=has_evaluator)  # type: ignore[arg-type]


def test_a_score_out_of_range_is_an_error_not_a_clamp() -> None:
    with pytest.raises(ValueError, match="score_cp is 10001"):
        value([0, 10_001])


def test_missing_scores_are_an_error() -> None:
    with pytest.raises(ValueError, match="need score_before_cp"):
        make_reward("cp_delta", has_evaluator=True)(np.int8([0]), False)
