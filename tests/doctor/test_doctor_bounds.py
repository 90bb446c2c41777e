"""Where a bound lies between a harmful and a harmless size, both sides are told rightly."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from algorithms.doctor import diagnose
from tests.doctor.rows import Rows, Values, record, without_chain
from tests.doctor.verdicts import named, ruled_out, untold


def outweighed(kept: float, **changes: Values) -> Rows:
    """A run whose whole loss keeps so much of its policy loss's direction."""
    shown = {"signal/objective": [kept - 0.02, kept + 0.02] * 8, "grad_share/entropy": 0.3}
    return record(**shown | changes)


def test_a_bonus_is_named_where_the_whole_loss_pulls_elsewhere() -> None:
    assert named("loss_budget", outweighed(0.45)).size == pytest.approx(0.5 / 0.45, rel=0.01)
    assert named("loss_budget", outweighed(-0.1)).size == pytest.approx(10, rel=0.01)
    assert "pulls where" in ruled_out("loss_budget", outweighed(0.55))


def test_the_heaviest_term_is_named_and_one_without_weight_is_not() -> None:
    anchored = outweighed(0.2, **{"grad_share/kl_ref": 0.5, "reg/kl_ref_coef": 4.0})
    assert named("loss_budget", anchored).confirm.endswith("--regularizer.kl-ref-coef 0.04")
    old = {"reg/kl_old_weighted": 0.9, "reg/kl_old_coef": 30.0, "grad_share/entropy": 0.05}
    assert named("loss_budget", outweighed(0.2, **old)).confirm.endswith("kl-old-coef 0.3")
    light = outweighed(0.2, **{"grad_share/entropy": 0.05})
    assert "no term" in ruled_out("loss_budget", light)


def knowing(not_played: Sequence[float], **changes: Values) -> Rows:
    """A run whose most probable moves would save so much of its first regret at its four evaluations."""
    rows = record(**{"grad_share/entropy": 0.3} | changes)
    evaluated = [row for row in rows[1:] if "eval/regret_cp" in row]
    for row, share in zip(evaluated, not_played, strict=True):
        row["eval/regret_cp_greedy"] = row["eval/regret_cp"] - share * rows[0]["eval/regret_cp"]
    return rows


STUCK = (0.3, 0.3, 0.3, 0.25)


def test_a_bonus_under_which_the_policy_plays_what_it_knows_does_no_harm() -> None:
    little = {"signal/objective": [0.18, 0.22] * 8}
    assert (
        diagnose(knowing((0.4, 0.3, 0.2, 0.15), **little)).verdict
        == "learning, no known cause found"
    )
    assert named("loss_budget", knowing(STUCK, **little))
    none = little | {"grad_share/entropy": None, "reg/ent_coef": 0.0}
    assert diagnose(knowing((0.4, 0.3, 0.2, 0.15), **none)).verdict == "impaired"
    anchored = little | {"grad_share/kl_ref": 0.5, "reg/kl_ref_coef": 4.0}
    assert named("loss_budget", knowing((0.4, 0.3, 0.2, 0.15), **anchored)).confirm.endswith(
        "coef 0.04"
    )


def test_a_bonus_is_named_where_the_policy_goes_on_knowing_more_than_it_plays() -> None:
    assert "save 25%" in named("loss_budget", knowing(STUCK)).measured
    assert diagnose(knowing(STUCK)).verdict == "impaired"
    assert "pulls where" in ruled_out("loss_budget", knowing((0.5, 0.4, 0.3, 0.21)))
    assert "would save 15%" in ruled_out("loss_budget", knowing((0.15, 0.15, 0.15, 0.15)))
    assert ruled_out("loss_budget", knowing(STUCK, **{"grad_share/entropy": 0.2}))
    frozen = diagnose(knowing(STUCK, **{"signal/step": 0.1}))
    assert [loss.stage.name for loss in frozen.chain.losses] == ["step"] and not frozen.causes


def test_where_entropy_is_forced_up_a_tenth_of_the_pull_is_enough_for_a_bonus_that_is_not_played() -> (
    None
):
    worse = {"entropy": (2.3, 2.8), "regret_cp": (285.0, 290.0), "grad_share/entropy": 0.2}
    assert diagnose(knowing(STUCK, **worse)).outcome.entropy == "forced up"
    assert named("loss_budget", knowing(STUCK, **worse)).size == pytest.approx(2.0)
    assert ruled_out("loss_budget", knowing(STUCK, **worse | {"grad_share/entropy": 0.08}))
    frozen = diagnose(knowing(STUCK, **worse, **{"signal/reward": 0.2}))
    assert [loss.stage.name for loss in frozen.chain.losses] == ["reward"] and not frozen.causes


def held(kl: float, longer: float, **changes: Values) -> Rows:
    """A run with such a weighted KL to the sampler, whose steps would gain so many times as much if longer."""
    gains = {"signal/gain_measured": 0.01, "signal/gain_long": 0.01 * longer}
    return record(**gains | {"reg/kl_old_weighted": kl, "reg/kl_old_coef": 10.0} | changes)


def test_a_kl_to_the_sampler_is_named_where_it_makes_the_steps_short() -> None:
    found = named("loss_budget", held(0.05, 12.0))
    assert found.size == pytest.approx(1.5) and found.confirm.endswith(
        "--regularizer.kl-old-coef 0.1"
    )
    assert "gain 12 times" in found.measured and "33%" in found.measured
    assert ruled_out("loss_budget", held(0.05, 7.0)), "they are long enough"
    assert ruled_out("loss_budget", held(0.001, 30.0)), "something else makes them short"
    lost = {"signal/objective": [0.18, 0.22] * 8}
    assert "kl-old-coef" in named("loss_budget", held(0.05, 12.0, **lost)).confirm
    stronger = lost | {"grad_share/entropy": 0.5}
    assert "ent-coef" in named("loss_budget", held(0.05, 12.0, **stronger)).confirm


def test_a_bonus_that_wins_beside_a_one_sided_clip_is_not_named() -> None:
    one_sided = {"policy/clip_fraction_high": 0.24, "policy/clip_fraction_low": 0.08}
    found = diagnose(outweighed(0.3, **one_sided))
    assert [cause.name for cause in found.causes] == ["clip_asymmetry"]
    assert [(each.name, each.verdict.because) for each in found.untold] == [  # type: ignore[union-attr]
        ("loss_budget", "clip_asymmetry shows the same: cure that first, and look again")
    ]


def test_a_clip_that_takes_most_of_the_pull_is_no_bonus() -> None:
    clipped = outweighed(0.3, **{"signal/clip": 0.3})
    assert "the clip leaves 0.30" in ruled_out("loss_budget", clipped)
    far = diagnose(record(**{"signal/clip": [0.28, 0.32] * 8, "policy/approx_kl": 0.05}))
    assert far.verdict == "learning, no known cause found", "it is there to hold such steps"
    twice = outweighed(0.3, **{"signal/clip": 0.3, "train/passes": 2.0})
    assert named("loss_budget", twice)


def test_a_bonus_cannot_be_told_without_the_signal_chain_nor_behind_an_earlier_loss() -> None:
    blind = without_chain(outweighed(0.2))
    assert untold("loss_budget", blind).missing == ("signal/objective",)
    both = diagnose(outweighed(0.2, **{"signal/reward": 0.3}))
    (hidden,) = both.untold
    assert hidden.name == "loss_budget" and "lost at `reward`" in hidden.verdict.because  # type: ignore[union-attr]
    assert both.verdict == "impaired" and not both.causes


def test_advantages_that_are_not_the_method_s_are_seen_where_these_are_known() -> None:
    noisy = {"signal/credit": [0.5, 0.9] * 8}
    assert not diagnose(record(**noisy)).chain.losses
    (lost,) = diagnose(record(**noisy, **{"signal/advantages": 0.7})).chain.losses
    assert (lost.stage.name, lost.since, lost.kept) == ("credit", 1, pytest.approx(0.7))
    from_9 = [1.0] * 8 + [0.6] * 8
    (lost,) = diagnose(record(**noisy, **{"signal/advantages": from_9})).chain.losses
    assert (lost.stage.name, lost.since) == ("credit", 9)
    assert not diagnose(record(**noisy, **{"signal/advantages": 1.0})).chain.losses
    weights = {"signal/advantages": 1.0, "signal/credit": [0.3, 0.4] * 8}
    assert [each.stage.name for each in diagnose(record(**weights)).chain.losses] == ["credit"]


def test_another_reward_setting_loses_nothing_and_a_poor_one_does() -> None:
    other = {"signal/reward": [0.8, 0.9] * 8, "signal/reward_expected": [0.8, 0.9] * 8}
    assert not diagnose(record(**other)).chain.losses
    for wrong in (
        other | {"signal/reward_expected": None},
        other | {"signal/reward": 0.6},
        other | {"signal/reward": -0.9, "signal/reward_expected": -0.9},
        other | {"signal/reward": 0.3, "signal/reward_expected": 0.3},
    ):
        assert [each.stage.name for each in diagnose(record(**wrong)).chain.losses] == ["reward"]


def test_the_ratio_of_a_corrected_run_is_noisy_and_its_loss_a_mean() -> None:
    once_low = [1.0] * 4 + [0.85] * 4 + [1.0] * 8
    (lost,) = diagnose(record(**{"signal/ratio": once_low})).chain.losses
    assert lost.stage.name == "ratio"
    assert not diagnose(record(signal__ratio=once_low, correction__weight_mean=0.9)).chain.losses
    lower = record(signal__ratio=[0.7, 0.75] * 8, correction__weight_mean=0.9)
    assert [loss.stage.name for loss in diagnose(lower).chain.losses] == ["ratio"]


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


def test_what_entropy_buys_cannot_be_told_of_a_run_that_has_just_begun() -> None:
    large = {"policy/approx_kl": 0.105, "grad_share/entropy": 0.01, "reg/ent_coef": 0.01}
    fast = {"entropy": (2.8, 0.7), "regret_cp": (300.0, 170.0)}
    assert named("weak_entropy_high_lr", record(16, **large, **fast)).size >= 1  # type: ignore[arg-type]
    early = untold("weak_entropy_high_lr", record(12, **large, **fast))  # type: ignore[arg-type]
    assert "in 12 updates: too few" in early.because
