"""Each rule names its cause with the right numbers, rules it out, or says what is missing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from algorithms import PRESETS, cli
from algorithms.collapse import DOCTOR_CLASSES
from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.doctor import RULES, diagnose
from algorithms.doctor.findings import CauseRule, rerun
from tests.doctor.rows import RESIDUAL, SLOPE, Rows, columns, keeping, record, without
from tests.doctor.signatures import SIGNATURES
from tests.doctor.verdicts import BY_NAME, named, ruled_out, untold
from tests.test_documented_commands import options_of
from tests.test_metrics_page import defined_names, family

CASES = list(SIGNATURES)
CONFIRMED = {signature.confirm: case for case, signature in SIGNATURES.items()}
"""How a confirming command ends -> a case with it."""


def test_every_class_of_causes_has_one_rule_and_a_case_here() -> None:
    assert len(RULES) == len(BY_NAME) and sorted(BY_NAME) == sorted(DOCTOR_CLASSES)
    assert {signature.name for signature in SIGNATURES.values()} == set(BY_NAME)


@pytest.mark.parametrize("rule", RULES, ids=list(BY_NAME))
def test_a_rule_declares_what_it_reads_what_it_says_and_who_hides_it(rule: CauseRule) -> None:
    page = set(defined_names())
    for metrics in rule.needs:
        assert metrics and {family(name) for name in metrics} <= page
    assert rule.logged_by
    for option in re.findall(r"--[\w.-]+", rule.logged_by):
        assert option in options_of("train")
    assert set(rule.hidden_by) < set(BY_NAME) - {rule.name}


def test_no_rule_is_hidden_by_one_that_it_hides() -> None:
    for rule in RULES:
        for name in rule.hidden_by:
            assert rule.name not in BY_NAME[name].hidden_by


@pytest.mark.parametrize("case", CASES)
def test_a_rule_names_its_cause_with_its_numbers(case: str) -> None:
    signature = SIGNATURES[case]
    found = named(signature.name, signature.rows)
    assert found.size == pytest.approx(signature.size)
    assert found.since == signature.since
    for part in signature.says:
        assert part in f"{found.measured}; {found.without}"
    assert found.remedy and found.confirm.endswith(signature.confirm)


@pytest.mark.parametrize("case", CASES)
def test_the_cause_alone_is_named_and_every_other_is_ruled_out(case: str) -> None:
    signature = SIGNATURES[case]
    diagnosis = diagnose(signature.rows)
    (cause,) = diagnosis.causes
    assert (cause.name, cause.is_harmful) == (signature.name, signature.is_harmful)
    assert len(diagnosis.ruled_out) == len(RULES) - 1 and not diagnosis.untold


@pytest.mark.parametrize("name", list(BY_NAME))
def test_a_healthy_record_rules_every_cause_out_in_words_without_nan(name: str) -> None:
    because = ruled_out(name, record())
    assert because and not re.search(r"\bnan\b", because)


@pytest.mark.parametrize("null", [False, True], ids=["absent", "null"])
@pytest.mark.parametrize("rule", RULES, ids=list(BY_NAME))
def test_a_cause_is_neither_named_nor_ruled_out_without_what_its_rule_needs(
    rule: CauseRule, null: bool
) -> None:
    every = {name for metrics in rule.needs for name in metrics}
    for rows in (record(), *(s.rows for s in SIGNATURES.values() if s.name == rule.name)):
        assert untold(rule.name, without(rows, *every, null=null)).missing == rule.needs[0]
        if len(rule.needs) == 1:
            for metric in every & set(columns(rows)):
                assert untold(rule.name, without(rows, metric, null=null)).missing == (metric,)
    assert untold(rule.name, []).missing == rule.needs[0]


def test_metrics_that_never_stand_in_one_row_tell_nothing() -> None:
    rows = record()
    for row in rows[:8]:
        row.pop("ratio/log_odds_slope_first_minibatch", None)
    for row in rows[8:]:
        row.pop("ratio/log_odds_residual_first_minibatch")
    assert "no row has all of them" in untold("stale_behaviour", rows).because


def test_scatter_is_no_temperature_and_a_straight_line_is_no_other_engine() -> None:
    scattered, straight = SIGNATURES["other weights"].rows, SIGNATURES["a colder learner"].rows
    assert "0.9000" in ruled_out("temperature_mismatch", scattered)
    ruled_out("forward_mismatch", straight)
    ruled_out("stale_behaviour", straight)


def test_a_slope_of_rounding_is_no_temperature() -> None:
    ruled_out("temperature_mismatch", record(**{SLOPE: 1.003, "step0/log_odds_slope": 1.003}))


def test_a_learner_that_is_nearly_uniform_is_no_multiple_of_its_old_sampler() -> None:
    slopes = [1, 0.84, 0.44, 0.16, 0.08, 0.004, 0.03, 0.005, 0.009, 0.01, 0.01, 0.03, 0.02, 0.3, 0.2, 0.2]  # fmt: skip
    left = [0, 0.22, 0.38, 0.28, 0.15, 0.12, 0.09, 0.11, 0.08, 0.12, 0.07, 0.06, 0.07, 0.024, 0.05, 0.045]  # fmt: skip
    ruled_out("temperature_mismatch", rows := record(**{SLOPE: slopes, RESIDUAL: left}))
    assert named("stale_behaviour", rows).since == 2
    rows = record(**{SLOPE: 0.3, RESIDUAL: 1e-6, "step0/log_odds_slope": 0.3})
    assert named("temperature_mismatch", rows).since == 1


def test_a_temperature_that_drifts_is_named_and_one_drawn_at_each_update_is_no_setting() -> None:
    drifting = [1.0 + 0.03 * update for update in range(1, 17)]
    assert named("temperature_mismatch", record(**{SLOPE: drifting})).size > 1
    drawn = [1.23, 2.83, 1.29, 0.56, 0.66, 1.34, 0.53, 1.03,
             0.83, 1.14, 0.67, 1.68, 0.61, 0.77, 1.65, 0.56]  # fmt: skip
    for _ in range(2):
        because = untold("temperature_mismatch", record(**{SLOPE: drawn})).because
        assert "another one at each update: 0.53 to 2.83 times" in because
        drawn.reverse()


def test_a_fixed_difference_is_not_old_weights_and_old_weights_are_no_fixed_difference() -> None:
    for case in ("other weights", "other weights, late", "dropout"):
        ruled_out("stale_behaviour", SIGNATURES[case].rows)
    ruled_out("forward_mismatch", SIGNATURES["stale"].rows)


def test_without_the_samples_of_each_update_the_first_look_still_names_a_temperature() -> None:
    signature = SIGNATURES["temperature"]
    rows = keeping(signature.rows, lambda name: not name.startswith("ratio/"))
    assert named("temperature_mismatch", rows).size == pytest.approx(signature.size)
    assert untold("stale_behaviour", rows).missing


def test_a_bonus_without_a_weight_is_none() -> None:
    rows = record(sampled=[9.0] * 16, **{"reg/ent_coef": 0.0})
    assert "0" in ruled_out("sampled_entropy_bonus", rows)


def test_the_kl_that_pulls_against_a_sampled_bonus_is_named_with_its_coefficient() -> None:
    trap = {"reg/controller_saturated": 1.0, "reg/kl_old_coef": 0.2}
    found = named("sampled_entropy_bonus", record(sampled=[5.0] * 16, **trap))
    assert "pulls the other way" in found.measured and "(0.2)" in found.measured


def test_a_controller_at_its_lower_bound_does_nothing_and_early_on_alone_it_is_none() -> None:
    at_a_bound = {"reg/controller_saturated": 1.0, "reg/kl_old_weighted": 0.9}
    falling = {"reg/kl_old_coef": [0.1, 0.05, 0.02] + [0.01] * 13}
    assert "lower bound" in ruled_out("saturated_controller", record(**at_a_bound, **falling))
    early = {"reg/controller_saturated": [1.0] * 3 + [0.0] * 13}
    ruled_out("saturated_controller", record(**early))


def test_a_controller_at_a_bound_where_its_penalty_weighs_little_does_no_harm() -> None:
    rows = record(**SIGNATURES["a controller at its bound"].changes | {"reg/kl_old_weighted": 0.01})
    assert "too little to do harm" in ruled_out("saturated_controller", rows)


def test_a_controller_whose_penalty_is_not_logged_cannot_be_told() -> None:
    rows = without(SIGNATURES["a controller at its bound"].rows, "reg/kl_old_weighted")
    assert untold("saturated_controller", rows).missing == ("reg/kl_old_weighted",)


def test_a_sharp_optimum_without_probes_is_told_by_entropy_and_otherwise_not() -> None:
    rows = SIGNATURES["a sharp optimum"].rows
    blind = keeping(rows, lambda name: not name.startswith("probe/"))
    assert untold("sharp_optimum", blind).missing == ("probe/optimum_entropy",)
    kept = record(**{"reg/kl_ref_coef": 0.001, "probe/optimum_entropy": None})
    assert "kept" in ruled_out("sharp_optimum", kept)


def test_a_sharp_optimum_does_harm_only_where_entropy_is_lost() -> None:
    found = named(
        "sharp_optimum", record(**{"reg/kl_ref_coef": 0.001, "probe/optimum_entropy": 0.1})
    )
    assert found.size < 1


def test_groups_of_one_move_that_come_later_are_a_symptom_and_no_cause() -> None:
    later = [0.02] * 3 + [0.9] * 13
    rows = {"rollout/reward_zero_std_fraction": later, "rollout/single_move_fraction": later}
    ruled_out("no_signal", record(**rows))


def test_equal_rewards_whose_moves_are_not_counted_cannot_be_told_unless_nearly_all_are() -> None:
    def blind(share: float) -> Rows:
        changes = {"rollout/reward_zero_std_fraction": share}
        return without(record(**changes), "rollout/single_move_fraction")

    assert untold("no_signal", blind(0.3)).missing == ("rollout/single_move_fraction",)
    assert named("no_signal", blind(0.9)).size >= 1
    ruled_out("no_signal", blind(0.04))


def test_without_groups_rewards_that_are_one_number_are_no_signal() -> None:
    groups = ["rollout/reward_zero_std_fraction", "rollout/single_move_fraction"]
    alone = {"rollout/small_groups": 64.0, "rollout/scored_moves": 64.0}
    same = record(**alone, **{"rollout/reward_p90": 0.1})
    assert named("no_signal", without(same, *groups)).size >= 1
    ruled_out("no_signal", without(record(**alone), *groups))
    grouped = record(**{"rollout/small_groups": 0.0, "rollout/scored_moves": 64.0})
    assert untold("no_signal", without(grouped, *groups)).missing == (groups[0],)


def test_positions_that_repeat_by_and_by_with_equal_entropies_are_a_large_set() -> None:
    slowly = [0.04 * update for update in range(16)]
    assert "by and by" in ruled_out(
        "fixed_positions", record(**{"rollout/repeated_fraction": slowly})
    )


def test_a_run_of_a_few_updates_does_not_tell_a_small_set_of_positions() -> None:
    rows = record(4, **{"rollout/repeated_fraction": [0.1, 0.4, 0.3, 0.5]})
    assert "too few" in untold("fixed_positions", rows).because


def test_a_clip_that_stops_both_sides_alike_or_hardly_any_is_symmetric() -> None:
    for high, low in ((0.2, 0.15), (0.02, 0.0)):
        sides = {"policy/clip_fraction_high": high, "policy/clip_fraction_low": low}
        ruled_out("clip_asymmetry", record(**sides))


def test_a_spent_batch_needs_several_passes_and_samples_that_were_good_before_the_first_step() -> (
    None
):
    spent = SIGNATURES["eight passes"].changes
    ruled_out("update_epochs", record(**spent | {"train/passes": 1.0}))
    ruled_out("update_epochs", record(**spent | {"ratio/ess_first_minibatch": 0.21}))
    learning = {"entropy": (2.8, 2.4), "regret_cp": (300.0, 150.0)}
    assert named("update_epochs", record(**spent | learning)).size < 1


def test_large_steps_are_no_cause_while_entropy_is_held_well_spent_or_a_bonus_pulls() -> None:
    large = SIGNATURES["large steps"].changes
    for change in (
        {"entropy": (2.8, 2.4)},
        {"regret_cp": (300.0, 60.0)},
        {"grad_share/entropy": 0.3},
        {"policy/approx_kl": 0.02},
        {"policy/approx_kl_first_minibatch": 0.1},  # the distance was there before the first step
    ):
        ruled_out("weak_entropy_high_lr", record(**large | change))


def test_a_command_leaves_out_what_the_record_does_not_give() -> None:
    assert rerun("--a nan", "--b 1") == "chess-lab train --like RUN --b 1"
    rows = without(SIGNATURES["a policy too sure"].rows, "rollout/temperature")
    assert named("no_signal", rows).confirm == "chess-lab train --like RUN"


@pytest.mark.parametrize("case", list(CONFIRMED.values()))
def test_the_confirming_command_is_one_that_train_accepts(
    case: str, tmp_path: Path, asked: list[TrainConfig]
) -> None:
    algorithm, regularizer = PRESETS["grpo"]
    config_file.save(TrainConfig(algorithm, regularizer), tmp_path / "config.json")
    found = named(SIGNATURES[case].name, SIGNATURES[case].rows)
    words = shlex.split(found.confirm.replace("RUN", shlex.quote(str(tmp_path))))
    assert words[0] == "chess-lab" and cli.main(words[1:]) == 1
    assert len(asked) == 1 and asked[0].preflight
