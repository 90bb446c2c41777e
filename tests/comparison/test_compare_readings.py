"""What is read off a run, by hand."""

from __future__ import annotations

import dataclasses

import pytest

from algorithms.comparison.readings import RunSummary, gradient_norms, matched_level, share_of_bonus
from algorithms.comparison.tuning import coefficient

READING = RunSummary(
    column="a", seed=1, evaluator="builtin-v1", budget_moves=100, commit=None, ended_by=None,
    scored_moves=(0, 50, 100), regret_cp=(400.0, 300.0, 200.0), entropy=(3.0, 2.0, 1.5),
    grad_share=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("percent", "entropy"), [(75, 2.0), (70, 1.9), (60, 1.7), (50, 1.5), (40, None), (87.5, 2.5)]
)
def test_entropy_is_interpolated_where_regret_first_falls_to_the_level(
    percent: float, entropy: float | None
) -> None:
    assert READING.entropy_at(percent) == (None if entropy is None else pytest.approx(entropy))


def test_the_first_crossing_counts_even_where_regret_rises_again() -> None:
    bumpy = dataclasses.replace(
        READING, regret_cp=(400.0, 200.0, 300.0, 100.0), entropy=(3.0, 2.0, 1.0, 0.0)
    )
    assert bumpy.entropy_at(70) == pytest.approx(2.4)
    assert bumpy.entropy_at(40) == pytest.approx(1.0 - 0.7)
    assert bumpy.percent_of_start == 25.0


def test_the_level_is_the_deepest_that_every_run_of_both_columns_reaches() -> None:
    shallow = dataclasses.replace(READING, regret_cp=(400.0, 300.0, 250.0))
    never = dataclasses.replace(READING, regret_cp=(400.0, 390.0, 380.0))
    assert matched_level([READING], [READING]) == 50
    assert matched_level([READING], [READING, shallow]) == 70
    assert matched_level([READING, never], [READING]) is None


def test_the_bonus_share_is_of_bonus_and_policy_alone() -> None:
    entropy, policy = "grad_share/entropy_norm", "grad_share/policy_norm"
    rows = [
        {entropy: 1.0, policy: 3.0, "grad_share/value_norm": 9.0},
        {entropy: None, policy: 3.0},
        {policy: 3.0},
        {entropy: 0.0, policy: 3.0},
    ]
    assert gradient_norms(rows) == [(1.0, 3.0)]
    assert share_of_bonus(rows) == 0.25
    assert share_of_bonus(rows[2:]) is None


def test_a_coefficient_gives_the_bonus_its_share_at_the_norms_it_was_measured_at() -> None:
    norms = [(0.5, 2.0), (0.3, 1.0), (0.2, 1.0)]  # ratios .25, .3, .2 at the coefficient .1
    found = coefficient(norms, probe=0.1, grad_share=0.5)
    assert found["ent_coef"] == pytest.approx(0.4)
    assert found["probe_norm_ratio"] == 0.25 and found["looks"] == 3
    scaled = 0.25 * found["ent_coef"] / 0.1
    assert scaled / (1 + scaled) == pytest.approx(0.5)
