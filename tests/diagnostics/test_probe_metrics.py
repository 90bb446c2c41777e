"""Probe metrics against numbers worked out by hand, and against sums written as loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from algorithms.core.metrics import BINS
from algorithms.diagnostics.probe_metrics import (
    change_metrics,
    covariance,
    entropy,
    exact_advantages,
    kl,
    mass_moved,
)


def logs(*rows: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """(log-probabilities, legal) of rows of probabilities, padded with -inf."""
    width = max(map(len, rows)) + 1
    table = np.full((len(rows), width), -np.inf)
    for row, probs in enumerate(rows):
        table[row, : len(probs)] = np.log(probs)
    return table, np.isfinite(table)


def change(
    before: list[float], after: list[float], rewards: list[float], **clip: float
) -> dict[str, float]:
    old, legal = logs(before)
    new, _ = logs(after)
    table = np.zeros(old.shape)
    table[0, : len(rewards)] = rewards
    bounds = {"clip_low": 0.2, "clip_high": 0.2} | clip
    return change_metrics(legal, old, new, table, **bounds)


def test_entropy_and_divergence_of_small_distributions_are_those_worked_out_by_hand() -> None:
    half, legal = logs([0.5, 0.5])
    quarter, _ = logs([0.25, 0.75])
    assert entropy(half, legal)[0] == pytest.approx(math.log(2))
    # 1/2 ln(1/2 / 1/4) + 1/2 ln(1/2 / 3/4) = 1/2 ln 4/3
    assert kl(half, quarter, legal)[0] == pytest.approx(0.5 * math.log(4 / 3))
    assert kl(half, half, legal)[0] == 0.0


def test_the_covariance_is_that_worked_out_by_hand() -> None:
    # p = (3/4, 1/4), R = (1, 0): A = (1/4, -3/4), ln p apart by ln 3; Cov = 3/4 1/4 ln 3 1.
    table, legal = logs([0.75, 0.25])
    rewards = np.array([[1.0, 0.0, 0.0]])
    advantages = exact_advantages(table, rewards, legal)
    assert advantages[0].tolist() == [0.25, -0.75, 0.0]
    assert covariance(table, advantages, legal)[0] == pytest.approx(3 / 16 * math.log(3))
    assert covariance(table, advantages + 5.0 * legal, legal)[0] == pytest.approx(
        3 / 16 * math.log(3)
    )


def test_equal_rewards_give_no_advantage_at_all_and_a_sure_move_keeps_its_sign() -> None:
    table, legal = logs([0.1, 0.2, 0.7])
    assert not exact_advantages(table, np.full((1, 4), 0.1), legal).any()
    sure, legal = logs([1 - 1e-15, 1e-15])
    advantages = exact_advantages(sure, np.array([[0.3, 0.1, 0.0]]), legal)
    assert advantages[0, 0] == pytest.approx(2e-16, rel=1e-6)


def test_a_forced_position_is_in_no_mean() -> None:
    before, legal = logs([1.0], [0.5, 0.5])
    after, _ = logs([1.0], [0.25, 0.75])
    rewards = np.array([[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    found = change_metrics(legal, before, after, rewards, clip_low=0.2, clip_high=0.2)
    assert found["probe/kl_step"] == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    assert found["probe/entropy"] == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    assert found["probe/expected_reward_regret"] == pytest.approx(0.25)
    assert found["probe/blocked_high"] == 1.0  # the one better move rose by half
    assert found["probe/blocked_low"] == 1.0


def test_mass_is_booked_under_the_probability_that_a_move_had() -> None:
    found = change([0.005, 0.055, 0.94], [0.025, 0.045, 0.93], [0.0, 0.0, 0.0])
    moved = {name.removeprefix("probe/"): value for name, value in found.items() if "mass" in name}
    assert moved == pytest.approx(
        {
            "mass_risen_rare": 0.02,
            "mass_fallen_sure": 0.01,
            "mass_moved_p_below_01": 0.02,
            "mass_moved_p_01_10": -0.01,
            "mass_moved_p_10_50": 0.0,
            "mass_moved_p_50_90": 0.0,
            "mass_moved_p_above_90": -0.01,
        }
    )


def test_a_rare_move_that_falls_hides_no_other_that_rises() -> None:
    found = change([0.005, 0.006, 0.989], [0.008, 0.001, 0.991], [0.0, 0.0, 0.0])
    assert found["probe/mass_risen_rare"] == pytest.approx(0.003)
    assert found["probe/mass_moved_p_below_01"] == pytest.approx(-0.002)
    assert found["probe/mass_fallen_sure"] == 0.0


def test_a_probability_on_an_edge_belongs_to_the_bin_above_and_nine_tenths_to_the_one_below() -> (
    None
):
    edges = np.array([[0.1, 0.5, 0.4], [0.9, 0.1, np.nan], [0.5, 0.5, np.nan]])
    legal = ~np.isnan(edges)
    before = np.where(legal, np.log(np.where(legal, edges, 1.0)), np.nan)
    after = np.log(np.array([[0.2, 0.2, 0.6], [0.8, 0.2, 1.0], [0.5, 0.5, 1.0]]))
    found = mass_moved(before, after, legal)
    moved = [3 * found[f"probe/mass_moved_{name}"] for name in BINS]
    # The .1 win .1 each, .5 loses .3 and .9 loses .1, .4 wins .2.
    assert moved == pytest.approx([0.0, 0.0, 0.1 + 0.1 + 0.2, -0.3 - 0.1, 0.0])
    assert found["probe/mass_fallen_sure"] == 0.0


def test_what_the_bins_win_and_lose_adds_up_to_nothing() -> None:
    rng = np.random.default_rng(0)
    before, after = (rng.dirichlet(np.full(40, alpha), 60) + 1e-12 for alpha in (0.03, 0.1))
    before, after = (p / p.sum(1, keepdims=True) for p in (before, after))
    found = mass_moved(np.log(before), np.log(after), np.ones(before.shape, bool))
    moved = [found[f"probe/mass_moved_{name}"] for name in BINS]
    assert sum(moved) == pytest.approx(0.0, abs=1e-14)
    assert all(moved)
    risen = sum(
        max(0.0, new - old)
        for old, new in zip(before.ravel(), after.ravel(), strict=True)
        if old < 0.01
    )
    fallen = sum(
        max(0.0, old - new)
        for old, new in zip(before.ravel(), after.ravel(), strict=True)
        if old > 0.9
    )
    assert found["probe/mass_risen_rare"] == pytest.approx(risen / 60)
    assert found["probe/mass_fallen_sure"] == pytest.approx(fallen / 60)


def test_each_clip_side_blocks_the_mass_that_is_past_its_bound() -> None:
    before, after = [0.1, 0.2, 0.3, 0.4], [0.13, 0.22, 0.2, 0.45]
    rewards = [1.0, 1.0, -1.0, -0.5]  # mean -0.2: two are better, two are worse
    found = change(before, after, rewards)
    assert found["probe/blocked_high"] == pytest.approx(0.1 / 0.3)  # 1.3 is past, 1.1 is not
    assert found["probe/blocked_low"] == pytest.approx(0.3 / 0.7)  # 2/3 is past; 1.125 rose
    wider = change(before, after, rewards, clip_high=0.28, clip_low=0.4)
    assert wider["probe/blocked_high"] == pytest.approx(0.1 / 0.3)
    assert wider["probe/blocked_low"] == 0.0
    without = change(before, after, rewards, clip_high=math.inf, clip_low=1.0)
    assert (without["probe/blocked_high"], without["probe/blocked_low"]) == (0.0, 0.0)


def test_where_no_move_is_better_than_another_nothing_can_be_blocked() -> None:
    found = change([0.5, 0.5], [0.1, 0.9], [0.3, 0.3])
    assert "probe/blocked_high" not in found and "probe/blocked_low" not in found
    assert found["probe/covariance"] == found["probe/expected_reward_regret"] == 0.0


def test_a_probability_of_nearly_zero_makes_no_figure_infinite() -> None:
    old = np.array([[-800.0, 0.0]])
    new = np.array([[-1.0, math.log1p(-math.exp(-1.0))]])
    legal = np.ones((1, 2), bool)
    found = change_metrics(legal, old, new, np.array([[1.0, 0.0]]), clip_low=0.2, clip_high=0.2)
    # exp(-800) is 0 in float64: the move has no mass, so none of it is blocked from rising.
    assert "probe/blocked_high" not in found
    assert all(math.isfinite(value) for value in found.values())
    assert found["probe/mass_risen_rare"] == pytest.approx(math.exp(-1.0))
