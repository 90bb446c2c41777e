"""Where a bound lies between a harmful and a harmless size, both sides are told rightly."""

from __future__ import annotations

import pytest

from algorithms.doctor import diagnose
from tests.doctor.rows import Rows, record
from tests.doctor.signatures import SIGNATURES
from tests.doctor.verdicts import named, ruled_out, untold

FORCED_UP = {"entropy": (2.3, 2.9), "regret_cp": (285.0, 360.0)}


def forced_up(share: float, normalized: float) -> Rows:
    changes = {"grad_share/entropy": share, "reg/ent_coef": 1.0, "normalized": normalized}
    return record(**changes, **FORCED_UP)


def test_a_bonus_with_half_the_usual_pull_is_named_where_the_policy_is_uniform() -> None:
    assert named("loss_budget", forced_up(0.39, 0.98)).size == 1
    assert named("loss_budget", forced_up(0.25, 0.98)).size == 1
    assert named("loss_budget", forced_up(0.44, 0.95)).size == pytest.approx(0.44 / 0.4)


def test_a_uniform_policy_under_half_the_usual_pull_may_be_another_causes_work() -> None:
    mismatch = SIGNATURES["temperature"].changes
    uniform = {"reg/ent_coef": 1.0, "normalized": 0.98}
    weak = diagnose(record(**mismatch, **uniform, **FORCED_UP, **{"grad_share/entropy": 0.25}))
    assert [cause.name for cause in weak.causes] == ["temperature_mismatch"]
    assert [finding.name for finding in weak.untold] == ["loss_budget"]
    strong = diagnose(record(**mismatch, **uniform, **FORCED_UP, **{"grad_share/entropy": 0.45}))
    assert [cause.name for cause in strong.causes] == ["temperature_mismatch", "loss_budget"]


@pytest.mark.parametrize(("share", "normalized"), [(0.36, 0.95), (0.19, 0.98), (0.19, 0.92)])
def test_what_forces_entropy_up_under_a_smaller_bonus_cannot_be_told(
    share: float, normalized: float
) -> None:
    found = untold("loss_budget", forced_up(share, normalized))
    assert found.missing == () and f"{share:.0%} of the gradient norm" in found.because
    assert diagnose(forced_up(share, normalized)).verdict == "getting worse"


def test_a_bonus_without_weight_is_ruled_out_whatever_entropy_does() -> None:
    assert "too little to do harm" in ruled_out("loss_budget", forced_up(0.05, 0.95))
    kept = record(**{"grad_share/entropy": 0.39}, entropy=(2.3, 2.3), normalized=0.8)
    assert "too little to do harm" in ruled_out("loss_budget", kept)


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


def repeating(last: float, gap: float) -> Rows:
    """A run whose positions repeat by and by, with so much less entropy on them than on held-out ones."""
    shares = [last * update / 15 for update in range(16)]
    entropies = [2.8 * (1 - gap)] * 16
    changes = {"rollout/repeated_fraction": shares, "policy/entropy": entropies}
    return record(entropy=(2.8, 2.8), **changes)


def test_a_small_set_of_positions_is_told_from_a_large_one_by_the_entropy_on_it() -> None:
    assert named("fixed_positions", repeating(0.95, 0.06)).size == 1
    assert named("fixed_positions", repeating(0.95, 0.3)).size == pytest.approx(2)
    between = repeating(0.95, 0.04)
    assert "some sets like this did harm" in untold("fixed_positions", between).because
    assert diagnose(between).verdict == "cannot tell"
    assert "by and by" in ruled_out("fixed_positions", repeating(0.95, -0.16))
    assert "by and by" in ruled_out("fixed_positions", repeating(0.7, 0.04))


@pytest.mark.parametrize(("coef", "sampled", "harmful"), [
    (0.01, 12.0, False), (0.2, 3.05, False), (0.2, 3.2, True), (1.0, 2.65, True), (1.0, 2.6, False),
])  # fmt: skip
def test_what_a_bonus_pays_too_much_counts_with_its_coefficient(
    coef: float, sampled: float, harmful: bool
) -> None:
    rows = record(sampled=[sampled] * 16, **{"reg/ent_coef": coef, "reg/entropy": 2.5})
    assert (named("sampled_entropy_bonus", rows).size >= 1) == harmful


@pytest.mark.parametrize(
    ("bought", "size"), [(0.55, 3.0), (0.63, None), (0.66, 0.9)], ids=["harm", "untold", "none"]
)
def test_entropy_that_is_nearly_spent_did_harm_by_what_it_bought(
    bought: float, size: float | None
) -> None:
    fell = bought * (1 - 0.4 / 2.8)
    rows = record(
        entropy=(2.8, 0.4),
        regret_cp=(300.0, 300.0 * (1 - fell)),
        **{"policy/approx_kl": 0.105, "grad_share/entropy": 0.01, "reg/ent_coef": 0.01},
    )
    if size is None:
        assert "some runs like this lost" in untold("weak_entropy_high_lr", rows).because
    else:
        assert named("weak_entropy_high_lr", rows).size == pytest.approx(size)
