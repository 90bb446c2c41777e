"""A record that lacks something is no clean bill of health, and no record ends in a traceback."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.commands import diagnose as command
from algorithms.doctor import RULES, Diagnosis, diagnose
from algorithms.doctor.diagnosis import LEARNS, UNMEASURED
from tests.doctor.mutations import REMOVALS, SPOILERS, drop_the_end
from tests.doctor.rows import Rows, columns, keeping, record, without
from tests.doctor.signatures import HARMFUL, SIGNATURES

RATIO = ("ratio/", "step0/")
LEVELS = {
    "without step0": lambda name: not name.startswith("step0/"),
    "without ratio": lambda name: not name.startswith("ratio/"),
    "without ratio and step0": lambda name: not name.startswith(RATIO),
    "without gradient shares": lambda name: not name.startswith("grad_share/"),
    "without evaluations": lambda name: not name.startswith("eval/"),
    "evaluations alone": lambda name: name.startswith("eval/"),
    "entropy, KL, clip and rewards": lambda name: name.startswith(
        ("policy/entropy", "policy/approx_kl", "policy/clip", "reg/kl_old", "rollout/reward_")
    ),
    "nothing": lambda name: False,
}


def checked(rows: Rows) -> Diagnosis:
    """The diagnosis, which can be said in every way, with numbers that are numbers."""
    diagnosis = diagnose(rows)
    json.dumps(diagnosis.to_dict(), allow_nan=False)
    assert diagnosis.line() and diagnosis.exit_code in (0, 1, 3)
    lines = command.written(diagnosis, "here", reasons=True)
    assert "RUN" not in "\n".join(lines)
    assert all(len(line) < 80 for line in lines if not line.startswith("   to confirm"))
    assert not any(" nan" in cause.verdict.confirm for cause in diagnosis.causes)  # type: ignore[union-attr]
    return diagnosis


@pytest.mark.parametrize("case", HARMFUL)
def test_no_missing_column_makes_a_faulty_record_healthy_or_names_another_cause(case: str) -> None:
    signature = SIGNATURES[case]
    for metric in columns(signature.rows)[
        HARMFUL.index(case) % 3 :: 3
    ]:  # each metric of a few cases
        rows = without(signature.rows, metric)
        found = diagnose(rows)
        assert found.verdict != LEARNS and found.exit_code in (1, 3), metric
        assert {cause.name for cause in found.causes} <= {signature.name}, metric


@pytest.mark.parametrize("level", list(LEVELS))
def test_no_level_of_logging_makes_a_faulty_record_healthy_or_names_another_cause(
    level: str,
) -> None:
    for case in HARMFUL:
        signature = SIGNATURES[case]
        found = diagnose(keeping(signature.rows, LEVELS[level]))
        assert found.verdict != LEARNS, case
        assert {cause.name for cause in found.causes} <= {signature.name}, case
        assert found.causes or found.untold, case


@pytest.mark.parametrize("case", [c for c in HARMFUL if SIGNATURES[c].since <= 2])
def test_a_faulty_record_without_its_first_updates_is_not_healthy_and_its_cause_is_still_seen(
    case: str,
) -> None:
    signature = SIGNATURES[case]
    for first in (1, 2, 5):
        found = diagnose(signature.rows[first:])
        assert found.verdict != LEARNS
        assert {cause.name for cause in found.causes} <= {signature.name}
        seen = {cause.name for cause in (*found.causes, *found.untold)}
        assert signature.name in seen


def test_a_healthy_record_without_some_rows_cannot_be_told_and_a_note_says_why() -> None:
    beginning = diagnose(record()[3:])
    assert beginning.verdict == "cannot tell" and "begins at update 3" in beginning.notes[0]
    for missing in ((7, 9), range(1, 17, 2)[1:]):
        some = diagnose([row for row in record() if row["step"] not in missing])
        assert some.exit_code == 3 and some.line().endswith("rows are missing")
        assert f"{16 - len(missing)} of the updates up to" in some.notes[0]


def test_old_weights_between_the_rows_on_record_are_not_ruled_out() -> None:
    fresh = [row for row in SIGNATURES["stale"].rows if row["step"] % 4 == 1 or not row["step"]]
    for row in fresh:
        row |= {"eval/regret_cp": 300.0 - 9 * row["step"], "eval/entropy": 2.7}
        row["eval/entropy_normalized"] = 0.7
    found = diagnose(fresh)
    assert found.outcome.learning == "learning" and found.verdict == "cannot tell"


def test_a_column_on_record_in_a_part_of_the_updates_rules_nothing_out() -> None:
    rows = record()
    for row in rows[9:]:
        del row["rollout/repeated_fraction"]
    found = diagnose(rows)
    (untold,) = found.untold
    assert (untold.name, untold.verdict.missing) == (
        "fixed_positions",
        ("rollout/repeated_fraction",),
    )  # type: ignore[union-attr]
    assert found.verdict == "cannot tell"


def test_two_missing_values_of_a_column_are_no_gap() -> None:
    rows = record()
    for row in rows[7:9]:
        row["rollout/repeated_fraction"] = None
    assert diagnose(rows).verdict == LEARNS


@pytest.mark.parametrize("case", ["temperature", "the same starts"])
def test_rows_of_two_runs_are_judged_by_nobody(case: str) -> None:
    for other in (record(), SIGNATURES[case].rows, record()[5:]):
        found = diagnose(SIGNATURES[case].rows + other)
        assert found.verdict == "cannot tell" and found.exit_code == 3 and not found.causes
        assert len(found.untold) == len(RULES) and "more than one run" in found.notes[0]
    reset = [row | {"step": 17 + row["step"]} for row in record()]  # steps go on, moves begin anew
    assert diagnose(record() + reset).verdict == "cannot tell"


NOTHING: dict[str, Any] = {
    "no row": [],
    "an empty row": [{}],
    "nulls": [{name: None for name in row} for row in record()],
    "NaN": [{name: math.nan for name in row} for row in record()],
    "infinity": [{name: math.inf for name in row} for row in record()],
    "steps alone": [{"step": row["step"]} for row in record()],
}


@pytest.mark.parametrize("case", list(NOTHING))
def test_a_record_of_nothing_tells_nothing(case: str) -> None:
    found = diagnose(NOTHING[case])
    assert found.verdict in ("too short", "cannot tell") and found.exit_code == 3
    assert len(found.untold) == len(RULES)
    checked(NOTHING[case])


@pytest.mark.parametrize("value", [None, math.nan, math.inf], ids=str)
def test_a_value_that_is_no_number_in_a_metric_counts_as_missing(value: Any) -> None:
    rows = SIGNATURES["stale"].rows
    for metric in columns(rows)[::3]:
        odd = [{k: value if k == metric else v for k, v in row.items()} for row in rows]
        found, missing = (diagnose(each).to_dict() for each in (odd, without(rows, metric)))
        assert found == missing, metric


def test_columns_that_no_run_writes_change_nothing() -> None:
    rows = [row | {"my/own <b>metric</b>": 1e300, "": None} for row in record()]
    assert repr(diagnose(rows)) == repr(
        diagnose(record())
    )  # a size may be NaN, which equals nothing


def mutated(case: str, names: list[str], rng: random.Random) -> Rows:
    """The rows of a case after these mutations."""
    rows = SIGNATURES[case].rows
    for name in names:
        rows = (REMOVALS | SPOILERS)[name](rows, rng)
    return rows


def never_healthy(case: str, names: list[str], seed: int) -> None:
    assert checked(mutated(case, names, random.Random(seed))).verdict != LEARNS


def from_the_start(case: str) -> bool:
    return SIGNATURES[case].since <= 2 and not SIGNATURES[case].outcome_decides


CASE, SEED = st.sampled_from(HARMFUL), st.integers(0, 2**32)
REMOVED = st.lists(st.sampled_from(list(REMOVALS)), min_size=1, max_size=3)
SPOILED = st.lists(st.sampled_from([*REMOVALS, *SPOILERS]), min_size=1, max_size=4)


@settings(max_examples=60)
@given(case=CASE, names=REMOVED, seed=SEED)
def test_nothing_that_is_taken_away_makes_a_faulty_record_healthy(
    case: str, names: list[str], seed: int
) -> None:
    never_healthy(case, names, seed)


@settings(max_examples=30)
@given(case=CASE.filter(from_the_start), names=REMOVED, seed=SEED)
def test_a_fault_from_the_start_is_there_however_early_the_record_ends(
    case: str, names: list[str], seed: int
) -> None:
    never_healthy(case, [drop_the_end.__name__, *names], seed)


@settings(max_examples=40)
@given(case=st.sampled_from(list(SIGNATURES)), names=SPOILED, seed=SEED)
def test_nothing_that_stands_in_a_record_ends_in_a_traceback(
    case: str, names: list[str], seed: int
) -> None:
    checked(mutated(case, names, random.Random(seed)))


def test_mutated_records_seldom_name_another_cause() -> None:
    rng, wrong = random.Random(0), Counter[bool]()
    for number in range(100):
        case = rng.choice(HARMFUL)
        names = rng.choices(list(REMOVALS), k=rng.randint(1, 3))
        found = checked(mutated(case, names, random.Random(number)))
        wrong[any(cause.name != SIGNATURES[case].name for cause in found.causes)] += 1
    assert wrong[True] <= 0.02 * wrong.total()


def test_a_record_that_was_filled_in_is_recognised_and_not_judged_well() -> None:
    rows = record(**{"policy/entropy": [2.0 + 0.01 * n for n in range(16)]})
    for number, row in enumerate(rows[1:], 1):
        if number % 3:  # two of three updates have the values of the one before
            row |= {
                name: rows[number - 1][name]
                for name in row
                if name in rows[number - 1] and name != "step"
            }
    found = diagnose(rows)
    assert found.verdict not in (LEARNS, UNMEASURED) and "was filled in" in found.notes[0]


def test_numbers_that_are_null_from_the_middle_on_leave_updates_that_nothing_is_known_of() -> None:
    rows = record()
    for row in rows[9:]:
        row |= {
            name: None
            for name in row
            if name not in ("step", "scored_moves") and not name.startswith("eval/")
        }
    found = diagnose(rows)
    assert found.exit_code == 3 and found.verdict == "cannot tell"


def test_columns_of_other_names_are_said_to_be_unknown() -> None:
    rows = [
        {f"my_{name.replace('/', '_')}": value for name, value in row.items()} for row in record()
    ]
    found = diagnose(rows)
    assert found.verdict == "too short" and "were they renamed? There are my_" in found.notes[0]
