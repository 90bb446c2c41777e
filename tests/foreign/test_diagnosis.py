"""What the doctor says of real logs of TRL: causes named, the outcome, and what a poorer log no longer tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from algorithms.doctor.findings import Named, Untold
from algorithms.foreign import ForeignDiagnosis, diagnose_log, read_log
from algorithms.foreign.diagnosis import AS_EXPECTED, CANNOT_TELL, IMPAIRED
from algorithms.foreign.trainers import TRAINERS
from tests.foreign.logs import Rows, csv_table, json_lines, sb3_csv, trl_rows, trl_state

NAMED = {
    "lr3e-2__1": "high_learning_rate",
    "hard__1": "no_signal",
    "squash__2": "no_signal",
    "stale16__1": "old_samples",
    "passes8__1": "old_samples",
    "dropout__2": "forward_mismatch",
    "high.02__1": "clip_asymmetry",
    "beta10__1": "loss_budget",
    "bonus1__1": "loss_budget",
    "adaptive__2": "saturated_controller",
    "prompts8__1": "fixed_prompts",
}


def said(folder: Path, rows: Rows) -> ForeignDiagnosis:
    return diagnose_log(read_log(trl_state(folder, rows)))


@pytest.mark.parametrize(("run", "cause"), NAMED.items())
def test_the_fault_of_a_run_of_trl_is_named_first(run: str, cause: str, tmp_path: Path) -> None:
    found = said(tmp_path, trl_rows(run))
    assert found.causes[0].name == cause and found.causes[0].is_harmful and found.exit_code == 1


@pytest.mark.parametrize(
    "run", ["sound__1", "sound_beta.02__2", "sound_steps4__1", "sound_mean10__2"]
)
def test_a_sound_run_of_trl_is_as_expected(run: str, tmp_path: Path) -> None:
    found = said(tmp_path, trl_rows(run))
    assert found.verdict == AS_EXPECTED and found.exit_code == 0
    assert not [cause for cause in found.causes if cause.is_harmful]


@pytest.mark.parametrize("run", ["hot1.5__1", "top_k4__1"])
def test_what_only_the_sampler_knows_is_never_ruled_out(run: str, tmp_path: Path) -> None:
    found = said(tmp_path, trl_rows(run))
    (temperature,) = [each for each in found.untold if each.name == "temperature_mismatch"]
    assert temperature.verdict.missing == ("surprise_gap",)  # type: ignore[union-attr]
    assert "callback" in temperature.logged_by


def test_the_callbacks_numbers_name_a_temperature_and_rule_it_out(tmp_path: Path) -> None:
    def row(n: int, gap: float, factor: float) -> dict[str, float]:
        extra = {
            "doctor/surprise_gap": gap,
            "doctor/inverse_temperature": factor,
            "doctor/dropout": 0.0,
        }
        return trl_rows("sound__1")[n] | extra if "reward" in trl_rows("sound__1")[n] else {}

    count = len(trl_rows("sound__1"))
    hot = said(tmp_path / "hot", [row(n, 0.55 + 0.01 * (n % 3), 0.67) for n in range(count)])
    assert hot.causes[0].name == "temperature_mismatch"
    measured = hot.causes[0].verdict
    assert isinstance(measured, Named) and "0.67 times the learner's" in measured.measured
    cool = said(tmp_path / "sound", [row(n, 0.01 * (n % 3 - 1), 1.0) for n in range(count)])
    assert {"temperature_mismatch", "forward_mismatch"} <= {each.name for each in cool.ruled_out}
    assert cool.verdict == AS_EXPECTED


@pytest.mark.parametrize("run", [*NAMED, "hot1.5__1"])
def test_without_a_column_the_true_cause_is_never_ruled_out(run: str, tmp_path: Path) -> None:
    rows = trl_rows(run)
    cause = NAMED.get(run, "temperature_mismatch")
    for number, column in enumerate(
        ["reward", "entropy", "frac_reward_zero_std", "clip_ratio/region_mean", "epoch"]
    ):
        kept = [
            {k: v for k, v in row.items() if k not in (column, f"eval_{column}")} for row in rows
        ]
        found = said(tmp_path / str(number), kept)
        assert cause not in {each.name for each in found.ruled_out}, column


def test_every_fifth_row_says_how_far_apart_they_are_and_names_nothing_that_needs_each(
    tmp_path: Path,
) -> None:
    for run in ("sound__1", "stale16__1", "passes8__1", "dropout__2"):
        rows = [row for row in trl_rows(run) if row["step"] % 5 == 0]
        found = said(tmp_path / run, rows)
        assert found.to_dict()["log"]["steps_apart"] == 5
        assert not {"old_samples", "forward_mismatch"} & {each.name for each in found.causes}
        assert (
            not {"old_samples", "forward_mismatch"} & {each.name for each in found.ruled_out}
            or run == "sound__1"
        )


def test_two_runs_in_one_file_and_filled_in_values_are_no_ground_for_a_verdict(
    tmp_path: Path,
) -> None:
    rows = [row for row in trl_rows("sound__1") if "reward" in row]
    twice = diagnose_log(read_log(json_lines(tmp_path / "twice.jsonl", [*rows, *rows])))
    assert twice.verdict == CANNOT_TELL and not twice.causes and not twice.ruled_out
    assert "more than one run" in twice.notes[0]
    filled = [rows[n - n % 5] | {"step": rows[n]["step"]} for n in range(len(rows))]
    found = diagnose_log(read_log(json_lines(tmp_path / "filled.jsonl", filled)))
    assert found.verdict == CANNOT_TELL and not found.causes and "filled in" in found.notes[0]


def test_a_policy_that_stands_still_at_the_end_was_not_filled_in(tmp_path: Path) -> None:
    found = said(tmp_path, trl_rows("lr3e-2__1"))
    assert not any("filled in" in note for note in found.notes)


def test_a_few_updates_are_too_few(tmp_path: Path) -> None:
    found = said(tmp_path, trl_rows("lr3e-2__1")[:6])
    assert found.verdict == CANNOT_TELL and found.exit_code == 3 and not found.causes


def test_a_log_with_evaluations_and_without_rewards_in_training_cannot_tell_of_fixed_prompts(
    tmp_path: Path,
) -> None:
    bare = [{k: v for k, v in row.items() if k != "reward"} for row in trl_rows("prompts8__1")]
    found = diagnose_log(read_log(json_lines(tmp_path / "log.jsonl", bare)))
    (told,) = [each for each in found.findings if each.name == "fixed_prompts"]
    assert isinstance(told.verdict, Untold) and told.verdict.missing == ("reward",)


@given(st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_log_with_holes_is_read_and_never_says_more_updates_than_it_has(
    tmp_path: Path, data: st.DataObject
) -> None:
    rows = trl_rows(data.draw(st.sampled_from([*NAMED, "sound__1"])))
    kept = data.draw(
        st.lists(st.sampled_from(range(len(rows))), min_size=1, unique=True).map(sorted)
    )
    names = data.draw(
        st.sets(st.sampled_from(sorted({name for row in rows for name in row})), max_size=12)
    )
    holed = [{k: v for k, v in rows[n].items() if k not in names or k == "step"} for n in kept]
    path = json_lines(tmp_path / "log.jsonl", holed)
    try:
        log = read_log(path)
    except ValueError:  # no name is left
        return
    found = diagnose_log(log)
    assert log.num_updates <= len({row["step"] for row in holed})
    if log.num_updates < 8:
        assert found.verdict == CANNOT_TELL
    if found.verdict == AS_EXPECTED:
        assert log.has("reward") or log.has("eval_reward")
    assert found.to_dict()["verdict"] == found.verdict


def test_rewards_that_rise_a_little_beside_a_held_entropy_are_not_called_good(
    tmp_path: Path,
) -> None:
    rows: Rows = [
        {"time/total_timesteps": 2048 * n, "rollout/ep_rew_mean": 20 + n, "train/entropy_loss": -0.69 + n / 2000,
         "train/approx_kl": 0.004, "train/clip_fraction": 0.05, "train/n_updates": 10 * n}
        for n in range(1, 30)
    ]  # fmt: skip
    found = diagnose_log(read_log(json_lines(tmp_path / "progress.json", rows)))
    assert found.log.trainer is TRAINERS["sb3"] and found.verdict == CANNOT_TELL
    assert "large bonus" in next(e.verdict.because for e in found.untold if e.name == "loss_budget")  # type: ignore[union-attr]


def test_a_loss_budget_gives_the_coefficient_that_it_was_told_or_could_compute(
    tmp_path: Path,
) -> None:
    found = said(tmp_path, trl_rows("beta10__1"))
    verdict = found.causes[0].verdict
    assert isinstance(verdict, Named) and "coefficient of 10" in verdict.measured
    assert verdict.confirm == "the same run with beta=0.1" and found.verdict == IMPAIRED


def test_a_bonus_that_raises_entropy_while_rewards_stand_still_is_a_loss_budget(
    tmp_path: Path,
) -> None:
    rows: Rows = [
        {"time/total_timesteps": 2048 * n, "rollout/ep_rew_mean": 20 + 7 * n % 3, "train/entropy_loss": -0.5 - n / 100,
         "train/approx_kl": 0.004, "train/clip_fraction": 0.05, "train/n_updates": 10 * n}
        for n in range(1, 30)
    ]  # fmt: skip
    (tmp_path / "args.json").write_text('{"ent_coef": 0.3}')
    path = json_lines(tmp_path / "progress.json", rows)
    (cause,) = diagnose_log(read_log(path, config=tmp_path / "args.json")).causes
    assert cause.name == "loss_budget" and isinstance(cause.verdict, Named)
    assert cause.verdict.confirm == "the same run with ent_coef=0.01"


def rising(n: int) -> float:
    return 0.3 + 0.3 * (1 - 0.97**n) + 0.01 * ((7 * n) % 5 - 2)


LIKE: dict[str, Callable[[int], dict[str, float]]] = {
    "verl": lambda n: {
        "critic/score/mean": rising(n),
        "actor/entropy": 0.45 * 0.995**n + 0.003 * (n % 3),
        "actor/pg_clipfrac": 0.002,
        "actor/ppo_kl": 1e-5 * (n % 3 - 1),
        "actor/grad_norm": 0.2 + 0.01 * (n % 4),
        "actor/lr": 1e-6,
        "rollout_corr/k3_kl": 0.002,
        "val-core/gsm8k/acc/mean@1": rising(n) - 0.02,
    },
    "openrlhf": lambda n: {
        "train/rollout/reward_mean": rising(n),
        "train/entropy_loss": 0.5 + 0.01 * (n % 3),
        "train/ppo_clip_ratio": 0.004,
        "train/ppo_kl": 1e-4,
        "train/actor_grad_norm": 0.4 + 0.01 * (n % 4),
        "train/group_reward_std": 0.3,
        "train/kl": 0.0,
    },
    "prime-rl": lambda n: {
        "train/agg/all/agent/reward/mean": rising(n),
        "entropy/all/mean": 0.4 + 0.01 * (n % 5),
        "is_masked/mean": 0.001,
        "mismatch_kl/all/mean": 0.001,
        "optim/grad_norm": 0.1 + 0.01 * (n % 3),
        "optim/lr": 1e-6,
    },
}
"""Rows of a language model that learns by small steps, of the order that such runs have."""


@pytest.mark.parametrize("trainer", LIKE)
def test_a_language_model_that_learns_by_small_steps_is_as_expected(
    trainer: str, tmp_path: Path
) -> None:
    rows: Rows = [{"step": n, **LIKE[trainer](n)} for n in range(1, 121)]
    found = diagnose_log(read_log(json_lines(tmp_path / "log.jsonl", rows)))
    assert found.log.trainer.name == trainer and found.verdict == AS_EXPECTED
    assert not found.causes and "nan" not in str(found.to_dict()).replace("NaN", "nan")


@pytest.mark.parametrize("trainer", LIKE)
def test_a_language_model_that_collapses_is_never_called_good(trainer: str, tmp_path: Path) -> None:
    def collapsed(n: int) -> dict[str, float]:
        row = LIKE[trainer](n)
        for name in row:
            if "entropy" in name:
                row[name] *= 0.93**n
            if (
                "score/mean" in name
                or "reward_mean" in name
                or "reward/mean" in name
                or "val-core" in name
            ):
                row[name] = 0.6 - row[name] / 2
        return row

    rows: Rows = [{"step": n, **collapsed(n)} for n in range(1, 121)]
    found = diagnose_log(read_log(json_lines(tmp_path / "log.jsonl", rows)))
    assert found.verdict in ("collapse", "unexplained collapse") and found.exit_code == 1


def test_a_stock_log_of_stable_baselines3_says_what_would_tell_of_its_sampler(
    tmp_path: Path,
) -> None:
    found = diagnose_log(read_log(sb3_csv(tmp_path, "mask_sound__1")))
    assert found.verdict == AS_EXPECTED
    untold = {each.name: each.logged_by for each in found.untold}
    for name in ("temperature_mismatch", "forward_mismatch"):
        assert untold[name] == "the callback of docs/other_trainers.md"


@pytest.mark.parametrize(
    "gamma, length, verdict",
    [
        (0.2, 50.0, CANNOT_TELL),
        (0.99, 500.0, AS_EXPECTED),
        (0.2, 5.0, AS_EXPECTED),
        (None, 50.0, AS_EXPECTED),
    ],
)
def test_a_discount_that_ends_long_before_the_episodes_do_is_no_run_as_expected(
    tmp_path: Path, gamma: float | None, length: float, verdict: str
) -> None:
    rows: Rows = [
        {"time/total_timesteps": 1024 * n, "time/iterations": n, "rollout/ep_rew_mean": 50 * rising(n),
         "rollout/ep_len_mean": length, "train/entropy_loss": -0.6 * 0.98**n, "train/approx_kl": 0.005}
        for n in range(1, 41)
    ]  # fmt: skip
    options = tmp_path / "args.json"
    options.write_text(
        json.dumps({"ent_coef": 0.0} if gamma is None else {"ent_coef": 0.0, "gamma": gamma})
    )
    found = diagnose_log(
        read_log(csv_table(tmp_path / "progress.csv", rows), "sb3", config=options)
    )
    assert found.verdict == verdict
    told = {each.name: each.verdict for each in (*found.untold, *found.ruled_out)}["short_horizon"]
    if verdict == CANNOT_TELL:
        assert "count for about 1.25 steps, and an episode lasts 50" in told.because


@pytest.mark.parametrize(
    ("error", "length", "verdict"),
    [(0.7, 50.0, CANNOT_TELL), (60.0, 50.0, AS_EXPECTED), (0.7, 5.0, AS_EXPECTED)],
    ids=["short", "far", "short episodes"],
)
def test_a_critic_whose_first_errors_are_below_a_step_s_reward_tells_of_a_short_discount(
    tmp_path: Path, error: float, length: float, verdict: str
) -> None:
    rows: Rows = [
        {"time/total_timesteps": 1024 * n, "time/iterations": n, "rollout/ep_rew_mean": length * (0.4 + rising(n)),
         "rollout/ep_len_mean": length, "train/entropy_loss": -0.6 * 0.98**n, "train/approx_kl": 0.005,
         "train/value_loss": error * 0.9**n}
        for n in range(1, 41)
    ]  # fmt: skip
    found = diagnose_log(read_log(csv_table(tmp_path / "progress.csv", rows), "sb3"))
    assert found.verdict == verdict
    (told,) = (each.verdict for each in found.untold if each.name == "short_horizon")
    assert ("times the reward of a step" in told.because) == (verdict == CANNOT_TELL)  # type: ignore[union-attr]
    assert told.missing == ("gamma",)  # type: ignore[union-attr]


def test_a_log_of_supervised_training_is_said_to_be_one(tmp_path: Path) -> None:
    history: Rows = [
        {"step": n, "loss": 2 / n, "learning_rate": 1e-5, "grad_norm": 1.0, "epoch": n / 50}
        for n in range(1, 51)
    ]
    found = diagnose_log(read_log(trl_state(tmp_path, history)))
    assert found.verdict == CANNOT_TELL and not found.ruled_out
    reasons = {each.verdict.because for each in found.untold}  # type: ignore[union-attr]
    assert len(reasons) == 1
    assert (
        "epoch, grad_norm, learning_rate, loss alone, as one of supervised training"
        in reasons.pop()
    )
