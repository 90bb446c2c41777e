"""Where a bound lies between a harmful and a harmless size, both sides are told rightly."""

from __future__ import annotations

import pytest

from algorithms.collapse.doctor import diagnose
from tests.collapse.doctor_rows import Rows, record
from tests.collapse.doctor_verdicts import named, ruled_out, untold

FORCED_UP = {"entropy": (2.3, 2.9), "regret_cp": (285.0, 360.0), "normalized": 0.98}


def forced_up(share: float) -> Rows:
    return record(**{"grad_share/entropy": share, "reg/ent_coef": 1.0}, **FORCED_UP)


def test_a_bonus_that_forces_entropy_up_is_named_from_a_third_of_the_gradient_on() -> None:
    assert named("loss_budget", forced_up(0.39)).size == pytest.approx(0.39 / 0.33)
    kept = record(**{"grad_share/entropy": 0.39}, entropy=(2.3, 2.3), normalized=0.8)
    assert "too little to do harm" in ruled_out("loss_budget", kept)


def test_what_forces_entropy_up_under_a_smaller_bonus_cannot_be_told() -> None:
    found = untold("loss_budget", forced_up(0.19))
    assert found.missing == () and "19% of the gradient norm" in found.because
    assert diagnose(forced_up(0.19)).verdict == "getting worse"
    ruled_out("loss_budget", forced_up(0.05))


def test_an_anchor_that_leaves_a_little_to_learn_is_named_and_one_that_leaves_much_is_not() -> None:
    heavy = {"policy/kl_ref": 0.022, "grad_share/kl_ref": 0.43, "reg/kl_ref_coef": 5.0}
    little, much = (285.0, 273.0), (285.0, 200.0)
    assert (
        "43% of the gradient norm"
        in named("loss_budget", record(**heavy, regret_cp=little, normalized=0.79)).measured
    )
    ruled_out("loss_budget", record(**heavy, regret_cp=much, normalized=0.79))
    ruled_out(
        "loss_budget", record(**heavy | {"policy/kl_ref": 0.4}, regret_cp=little, normalized=0.5)
    )


@pytest.mark.parametrize(
    ("first", "second", "harmful"),
    [(0.29, 0.32, True), (0.32, 0.29, True), (0.23, 0.16, False), (0.02, 0.4, False)],
)
def test_a_policy_too_sure_to_explore_is_told_by_its_first_two_updates(
    first: float, second: float, harmful: bool
) -> None:
    single = [first, second, *[0.1] * 14]
    rows = record(
        **{
            "rollout/single_move_fraction": single,
            "rollout/reward_zero_std_fraction": [s + 0.01 for s in single],
        }
    )
    if harmful:
        assert named("no_signal", rows).size == pytest.approx((first + second) / 2 / 0.25)
    else:
        ruled_out("no_signal", rows)
