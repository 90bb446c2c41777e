"""Each rule fires on its cause with the right numbers, and says nothing of what was not measured."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS, cli
from algorithms.collapse.causes import DOCTOR_CLASSES
from algorithms.collapse.doctor import RULES, diagnose
from algorithms.collapse.doctor.evidence import Evidence, Record, rerun
from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from tests.collapse.doctor_rows import SIGNATURES, UPDATES, record, without

BY_NAME = {rule.__name__: rule for rule in RULES}
CASES = list(SIGNATURES)


def judged(name: str, **changes: Any) -> Evidence | None:
    return BY_NAME[name](Record(record(**changes)))


def fires(name: str, **changes: Any) -> Evidence:
    found = judged(name, **changes)
    assert found is not None and found.name == name
    return found


def test_every_class_has_one_rule_and_a_case_here() -> None:
    assert len(DOCTOR_CLASSES) <= 12
    assert sorted(BY_NAME) == sorted(DOCTOR_CLASSES) and len(RULES) == len(BY_NAME)
    assert {signature.name for signature in SIGNATURES.values()} == set(DOCTOR_CLASSES)


@pytest.mark.parametrize("case", CASES)
def test_a_rule_fires_on_its_cause_with_its_numbers(case: str) -> None:
    signature = SIGNATURES[case]
    found = BY_NAME[signature.name](Record(signature.rows))
    assert found is not None and found.name == signature.name
    assert found.confidence == pytest.approx(signature.confidence)
    evidence = str(found.to_dict()["evidence"])
    for part in signature.says:
        assert part in evidence
    assert found.confirm.endswith(signature.confirm) and found.remedy


@pytest.mark.parametrize("case", CASES)
def test_the_cause_is_ranked_first_and_alone_explains_its_record(case: str) -> None:
    names = [cause.name for cause in diagnose(SIGNATURES[case].rows).causes]
    assert names == [SIGNATURES[case].name]


@pytest.mark.parametrize("rule", RULES, ids=list(BY_NAME))
def test_a_rule_says_nothing_of_a_healthy_or_an_empty_record(rule: Any) -> None:
    assert rule(Record(record())) is None
    assert rule(Record([])) is None
    assert rule(Record([{name: None for name in row} for row in record()])) is None


@pytest.mark.parametrize("null", [False, True], ids=["absent", "null"])
@pytest.mark.parametrize("case", CASES)
def test_a_rule_says_nothing_where_what_it_needs_is_missing(case: str, null: bool) -> None:
    signature = SIGNATURES[case]
    for metric in signature.needs:
        assert (
            BY_NAME[signature.name](Record(without(signature.rows, metric, null=null))) is None
        ), metric


def test_scatter_is_no_temperature_and_a_straight_line_is_no_other_engine() -> None:
    off = {"step0__log_odds_slope": 0.8, "ratio__std_first_minibatch": 0.3}
    assert judged("temperature_mismatch", **off, step0__log_odds_residual=0.05) is None
    assert judged("forward_mismatch", **off) is None
    assert "0.8000 times" in fires("temperature_mismatch", **off).measured


def test_a_slope_of_rounding_is_no_temperature() -> None:
    assert judged("temperature_mismatch", step0__log_odds_slope=1.4) is None  # ratios are all 1
    assert judged("temperature_mismatch", step0__log_odds_slope=1.005) is None


def test_a_sampler_that_is_off_from_the_start_is_not_called_stale() -> None:
    assert judged("stale_behaviour", ratio__std_first_minibatch=0.3) is None
    mostly_fresh = [0.0, *([0.2, 0.0, 0.0, 0.0] * 3)][:UPDATES]
    assert judged("stale_behaviour", ratio__std_first_minibatch=mostly_fresh) is None
    both = fires("stale_behaviour", ratio__std_first_minibatch=[0.1] + 11 * [0.5])
    assert both.confidence == 0.7


def test_staleness_counts_the_updates_that_begin_away_from_one() -> None:
    every_fourth_fresh = [0.0, *([0.2, 0.2, 0.2, 0.0] * 3)][:UPDATES]
    found = fires("stale_behaviour", ratio__std_first_minibatch=every_fourth_fresh)
    assert "82% of the later ones" in found.measured  # 9 of 11
    assert "2 begin at it" in found.measured


def test_a_sampled_surrogate_without_a_weight_is_no_bonus() -> None:
    logged = {"reg__entropy_sampled": 7.0, "reg__entropy": 1.0}
    assert judged("sampled_entropy_bonus", **logged, reg__entropy_weighted=0.0) is None
    assert fires("sampled_entropy_bonus", reg__entropy_sampled=2.7).confidence == 0.6


def test_the_kl_that_pulls_against_a_sampled_bonus_is_named() -> None:
    found = fires(
        "sampled_entropy_bonus", reg__entropy_sampled=7.0, reg__controller_saturated=1.0,
        reg__kl_old=0.25, reg__kl_old_coef=0.2,
    )  # fmt: skip
    assert "at its bound (0.2), and the exact KL is 0.25" in found.measured


def test_a_controller_at_its_bound_early_on_is_no_cause_and_late_alone_is_a_weaker_one() -> None:
    early = [1.0] * 9 + [0.0] * 3
    assert judged("saturated_controller", reg__controller_saturated=early) is None
    late = [0.0] * 9 + [1.0] * 3
    assert fires("saturated_controller", reg__controller_saturated=late).confidence == 0.7


def test_groups_that_die_after_the_start_are_a_symptom_and_no_cause() -> None:
    later = [0.02] * 3 + [0.9] * 9
    assert judged("no_signal", rollout__reward_zero_std_fraction=later) is None


def test_a_uniform_policy_that_learns_or_that_has_no_rewards_is_no_loss_budget() -> None:
    heavy = {"eval__entropy_normalized": 0.99, "grad_share__entropy": 0.8}
    assert judged("loss_budget", **heavy, regret_cp=(300.0, 200.0)) is None
    dead = {"rollout__reward_zero_std_fraction": 0.9, "regret_cp": (300.0, 300.0)}
    assert judged("loss_budget", **heavy, **dead) is None
    light = {"grad_share__entropy": 0.2, "regret_cp": (300.0, 300.0)}
    assert judged("loss_budget", eval__entropy_normalized=0.99, **light) is None


def test_a_sharp_optimum_without_a_reference_is_confirmed_with_more_bonus() -> None:
    found = fires("sharp_optimum", probe__optimum_entropy=0.3, reg__ent_coef=0.02)
    assert found.confidence == 0.6  # entropy has not followed yet
    assert found.confirm.endswith("--regularizer.ent-coef 0.2")


def test_a_clip_that_stops_both_sides_alike_is_symmetric() -> None:
    high = {"clip__up_p_01_10": 0.4, "clip__up_p_10_50": 0.4}
    assert judged("clip_asymmetry", **high, clip__down_p_01_10=0.4, clip__down_p_10_50=0.3) is None
    assert judged("clip_asymmetry", clip__up_p_01_10=0.4, clip__up_p_10_50=0.2) is None


def test_a_spent_batch_needs_several_passes_and_fresh_samples() -> None:
    spent = {"ratio__ess": 0.2, "policy__approx_kl": 0.5}
    assert judged("update_epochs", **spent, train__passes=1.0) is None
    old = {"train__passes": 4.0, "ratio__std_first_minibatch": [0.0] + 11 * [0.2]}
    assert judged("update_epochs", **spent, **old) is None


def test_large_steps_are_no_cause_while_entropy_is_held_or_the_bonus_pulls() -> None:
    large = {"policy__approx_kl": 0.1, "grad_share__entropy": 0.01}
    assert judged("weak_entropy_high_lr", **large) is None
    spent = {"entropy": (2.8, 0.7), "regret_cp": (300.0, 225.0), "policy__approx_kl": 0.1}
    paid = spent | {"regret_cp": (300.0, 150.0), "grad_share__entropy": 0.01}
    assert judged("weak_entropy_high_lr", **paid) is None
    assert judged("weak_entropy_high_lr", **spent, grad_share__entropy=0.3) is None
    assert (
        "has 0.0% of" in fires("weak_entropy_high_lr", **spent, grad_share__entropy=None).measured
    )


def test_a_command_leaves_out_what_the_record_does_not_give() -> None:
    assert rerun("--a nan", "--b 1") == "chess-lab train --like RUN --b 1"
    found = fires(
        "no_signal", rollout__reward_zero_std_fraction=0.5, rollout__distinct_moves_mean=1.0,
        rollout__temperature=None,
    )  # fmt: skip
    assert found.confirm == "chess-lab train --like RUN"


@pytest.mark.parametrize("case", CASES)
def test_the_confirming_command_is_one_that_train_accepts(
    case: str, tmp_path: Path, asked: list[TrainConfig]
) -> None:
    algorithm, regularizer = PRESETS["grpo"]
    config_file.save(TrainConfig(algorithm, regularizer), tmp_path / "config.json")
    found = BY_NAME[SIGNATURES[case].name](Record(SIGNATURES[case].rows))
    assert found is not None
    words = shlex.split(found.confirm.replace("RUN", shlex.quote(str(tmp_path))))
    assert words[0] == "chess-lab" and cli.main(words[1:]) == 1
    assert len(asked) == 1 and asked[0].preflight
