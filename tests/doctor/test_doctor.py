"""The doctor's verdicts, several causes at once, what hides what, where a cause begins, and the notes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from algorithms.doctor import RULES, diagnose, matrices
from algorithms.doctor.diagnosis import LEARNS, UNMEASURED
from algorithms.doctor.findings import Named
from tests.doctor.rows import UPDATES, Rows, keeping, record, without_chain
from tests.doctor.signatures import SIGNATURES, from_update, samples

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"

LOST: dict[str, Any] = {"entropy": (2.8, 0.7), "regret_cp": (300.0, 290.0), "normalized": 0.2}
TEMPERATURE, STARTS = SIGNATURES["temperature"].changes, SIGNATURES["the same starts"].changes

ROWS = {
    LEARNS: record(),
    UNMEASURED: without_chain(record()),
    "impaired": record(**TEMPERATURE),
    "collapse": record(**TEMPERATURE | LOST),
    "unexplained collapse": record(**LOST),
    "not learning": record(regret_cp=(300.0, 298.0)),
    "getting worse": record(regret_cp=(300.0, 340.0)),
    "cannot tell": keeping(record(), lambda name: not name.startswith("ratio/")),
    "too short": record(3),
}
CODES = {LEARNS: 0, UNMEASURED: 3, "cannot tell": 3, "too short": 3}


def names(rows: Rows) -> list[str]:
    return [cause.name for cause in diagnose(rows).causes]


@pytest.mark.parametrize("verdict", list(ROWS))
def test_the_verdict_follows_from_outcome_causes_and_what_is_missing(verdict: str) -> None:
    diagnosis = diagnose(ROWS[verdict])
    assert diagnosis.verdict == verdict
    assert bool(diagnosis.causes) == (verdict in ("impaired", "collapse"))
    assert diagnosis.exit_code == CODES.get(verdict, 1)
    assert verdict.partition(", ")[2] in diagnosis.line()


def test_a_cause_that_does_no_harm_is_named_and_leaves_the_run_healthy() -> None:
    diagnosis = diagnose(SIGNATURES["rounding"].rows)
    (cause,) = diagnosis.causes
    assert diagnosis.verdict == LEARNS and not cause.is_harmful
    assert diagnosis.line() == "learning, entropy kept; no known cause found"


def test_harmful_causes_come_first_and_then_the_order_of_the_rules() -> None:
    both = record(
        **SIGNATURES["rounding"].changes | STARTS | SIGNATURES["a squashed reward"].changes
    )
    diagnosis = diagnose(both)
    assert [cause.name for cause in diagnosis.causes] == [
        "no_signal", "fixed_positions", "forward_mismatch",
    ]  # fmt: skip
    assert [cause.is_harmful for cause in diagnosis.causes] == [True, True, False]
    line = diagnosis.line()
    assert line.index("no_signal (") < line.index("fixed_positions (") and "forward" not in line
    assert line.endswith(diagnosis.to_dict()["causes"][0]["remedy"])


PAIRS = [
    ("temperature", "the same starts"),
    ("temperature", "a squashed reward"),
    ("other weights", "the same starts"),
    ("a squashed reward", "large steps"),
    ("a surrogate above the entropy", "the same starts"),
    ("the same starts", "a tight upper clip"),
    ("a controller at its bound", "a squashed reward"),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_causes_at_once_are_both_named_and_no_third(one: str, other: str) -> None:
    first, second = SIGNATURES[one], SIGNATURES[other]
    found = diagnose(record(**first.changes | second.changes))
    assert {cause.name for cause in found.causes} == {first.name, second.name}
    assert found.causes[0].name == first.name  # the earlier rule


@pytest.mark.parametrize("rule", [r for r in RULES if r.hidden_by], ids=lambda rule: rule.name)
def test_what_a_harmful_cause_shows_as_well_cannot_be_told_until_that_is_cured(rule: Any) -> None:
    own = next(s for s in SIGNATURES.values() if s.name == rule.name and s.is_harmful)
    for name in rule.hidden_by:
        other = next(s for s in SIGNATURES.values() if s.name == name and s.is_harmful)
        both = diagnose(record(**own.changes | other.changes))
        (hidden,) = both.untold
        assert hidden.name == rule.name and name in hidden.verdict.because
        assert "cure that first" in hidden.verdict.because
        assert [cause.name for cause in both.causes] == [name]


def test_a_harmless_cause_hides_nothing() -> None:
    clip = SIGNATURES["a tight upper clip"].changes
    assert names(record(**SIGNATURES["rounding"].changes | clip)) == [
        "clip_asymmetry", "forward_mismatch",
    ]  # fmt: skip


@pytest.mark.parametrize("update", [1, 5, 9, 12])
def test_a_cause_begins_at_the_update_from_which_it_is_seen(update: int) -> None:
    late = {
        "temperature_mismatch": samples(from_update(update, 1.3, 1.0), 1e-7),
        "forward_mismatch": samples(from_update(update, 0.9, 1.0), from_update(update, 0.4, 1e-7)),
        "no_signal": {"rollout/reward_zero_std_fraction": from_update(update, 0.4, 0.04)},
        "fixed_positions": {"rollout/repeated_fraction": from_update(update, 0.9, 0.0)},
        "saturated_controller": {
            **SIGNATURES["a controller at its bound"].changes,
            "reg/controller_saturated": from_update(update, 1.0, 0.0),
        },
    }
    for name, changes in late.items():
        (cause,) = diagnose(record(**changes)).causes
        assert isinstance(cause.verdict, Named)
        assert (cause.name, cause.verdict.since) == (name, update)


def test_a_fault_after_a_resume_is_not_called_stale() -> None:
    rows = record(**samples(from_update(9, 1.3, 1.0), 1e-7))
    rows[9] |= {"step0/log_odds_slope": 1.3, "step0/log_odds_residual": 1e-7}
    assert names(rows) == ["temperature_mismatch"]


@pytest.mark.parametrize("interval", [2, 3, 5])
@pytest.mark.parametrize("updates", [15, 16])
def test_old_weights_are_seen_whatever_the_interval_and_the_number_of_updates(
    interval: int, updates: int
) -> None:
    residuals = [0.4 * (update % interval) for update in range(updates)]
    found = diagnose(record(updates, **samples(1.0, residuals), rollout__reward_mean=0.1))
    assert [cause.name for cause in found.causes] == ["stale_behaviour"]


SMOKE = [c for c in SIGNATURES if SIGNATURES[c].name in ("temperature_mismatch", "forward_mismatch")
         and SIGNATURES[c].since == 1 and SIGNATURES[c].is_harmful]  # fmt: skip


@pytest.mark.parametrize("updates", [1, 2, 3])
@pytest.mark.parametrize("case", SMOKE)
def test_a_fault_of_the_samples_is_named_in_a_run_of_a_few_updates(case: str, updates: int) -> None:
    diagnosis = diagnose(SIGNATURES[case].rows[: updates + 1])
    (cause,) = diagnosis.causes
    assert cause.name == SIGNATURES[case].name and diagnosis.exit_code == 1
    assert all("are needed" in each.verdict.because for each in diagnosis.untold)  # type: ignore[union-attr]
    assert not diagnosis.ruled_out


def test_a_short_healthy_run_is_too_short_for_everything() -> None:
    diagnosis = diagnose(record(3))
    assert len(diagnosis.untold) == len(RULES) and diagnosis.exit_code == 3
    assert (
        diagnosis.line() == f"too short: learning, entropy kept; {len(RULES)} causes cannot be told"
    )


def test_a_record_with_one_evaluation_tells_of_a_cause_and_not_of_learning() -> None:
    def once(rows: Rows) -> Rows:
        late = [keeping([row], lambda name: not name.startswith("eval/"))[0] for row in rows[1:]]
        return [rows[0], *late]

    healthy = diagnose(once(record()))
    assert healthy.verdict == "cannot tell" and healthy.exit_code == 3
    assert healthy.line().startswith("cannot tell whether it learns, entropy kept")
    faulty = diagnose(once(SIGNATURES["temperature"].rows))
    assert faulty.verdict == "impaired" and faulty.causes[0].name == "temperature_mismatch"


def test_a_confidence_is_the_share_that_was_right_with_half_a_finding_on_each_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matrices, "RIGHT_OF", {"temperature_mismatch": (1, 4)})
    found = Named(3.0, 1, "", "", "", "")
    assert matrices.confidence("temperature_mismatch", found) == pytest.approx(1.5 / 5)
    assert matrices.confidence("loss_budget", found) == 0.5


def test_the_shares_that_were_right_are_those_of_the_recorded_matrix() -> None:
    right, every = Counter[str](), Counter[str]()
    for path in RESULTS.glob("doctor_[!r]*.json"):  # not the remedies
        for row in json.loads(path.read_text())["rows"]:
            every.update(row["named"])
            right[row["cause"]] += row["cause"] in row["named"]
    assert every.total() > 200
    assert {name: (right[name], of) for name, of in every.items()} == matrices.RIGHT_OF


def test_the_json_says_the_state_of_every_cause_once() -> None:
    signature = SIGNATURES["a tight upper clip"]
    found = json.loads(json.dumps(diagnose(record(**signature.changes | TEMPERATURE)).to_dict()))
    assert list(found) == [
        "verdict",
        "outcome",
        "pace",
        "stages",
        "causes",
        "ruled_out",
        "tried",
        "cannot_tell",
        "notes",
    ]
    (cause,), (untold,) = found["causes"], found["cannot_tell"]
    assert set(cause) == {"name", "confidence", "stage", "harmful", "size", "since_update", "evidence",
                          "remedy", "confirm"}  # fmt: skip
    assert (cause["harmful"], cause["size"], cause["since_update"]) == (True, 4.373, 1)
    assert cause["stage"] == "ratio"
    assert untold == {
        "name": "clip_asymmetry", "missing": [], "logged_by": untold["logged_by"],
        "because": "temperature_mismatch shows the same: cure that first, and look again",
    }  # fmt: skip
    every = [
        each["name"] for state in ("causes", "ruled_out", "cannot_tell") for each in found[state]
    ]
    assert sorted(every) == sorted(rule.name for rule in RULES)
    assert all(each["because"] for each in found["ruled_out"])


@pytest.mark.parametrize("metric", ["policy/entropy", "reg/entropy_sampled", "eval/entropy"])
def test_an_entropy_above_that_of_218_moves_is_called_impossible(metric: str) -> None:
    rows = record()
    rows[-1][metric] = 5.39
    assert any(f"{metric} reaches 5.39 nats" in note for note in diagnose(rows).notes)
    rows[-1][metric] = 5.38
    assert not any("ln 218" in note for note in diagnose(rows).notes)


def test_an_entropy_above_that_of_the_legal_moves_is_called_impossible_once() -> None:
    rows = record(entropy=(3.4, 3.4), **{"policy/entropy_bound": 3.3})
    (note,) = (n for n in diagnose(rows).notes if "impossible" in n)
    assert "policy/entropy is 3.400 where the legal moves allow 3.300" in note
    assert diagnose(record(**{"policy/entropy_bound": 3.3})).notes == ()


def test_the_peak_of_a_flat_run_is_noise_and_that_of_a_learning_one_is_not_looked_at() -> None:
    flat: dict[str, Any] = {"regret_cp": (300.0, 299.0)}
    assert any(
        "is expected by chance" in note and "0.12 at update 2" in note
        for note in diagnose(record(**flat)).notes
    )
    assert diagnose(record()).notes == ()
    lone = [0.1, 0.12] * (UPDATES // 2 - 1) + [0.1, 9.0]
    for rewards in (lone, [0.0] * 15 + [0.12], 0.0):  # real, not to be judged, none
        assert diagnose(record(**flat, rollout__reward_mean=rewards)).notes == ()
