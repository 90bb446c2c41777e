"""The doctor's verdicts, their exit codes, and what it does with a record that is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from algorithms.collapse.doctor import Watch, diagnose, diagnose_run
from algorithms.commands import diagnose as command
from tests.collapse.doctor_rows import SIGNATURES, UPDATES, record, without, write
from tests.commands.lab import chess_lab

ROWS = {
    "healthy": record(),
    "not a collapse": record(entropy=(2.8, 1.0), regret_cp=(300.0, 120.0)),
    "collapse": record(entropy=(2.8, 1.0), rollout__repeated_fraction=0.9),
    "impaired": record(rollout__repeated_fraction=0.9),
    "too short": record(3),
}


@pytest.mark.parametrize("verdict", list(ROWS))
def test_the_verdict_follows_from_cause_entropy_and_regret(verdict: str) -> None:
    diagnosis = diagnose(ROWS[verdict])
    assert diagnosis.verdict == verdict
    assert bool(diagnosis.causes) == (verdict in ("collapse", "impaired"))
    assert diagnosis.line().startswith(verdict)


def test_entropy_that_bought_regret_is_no_collapse_and_the_note_says_what_it_bought() -> None:
    (note,) = diagnose(ROWS["not a collapse"]).notes
    assert "entropy fell to 36% of its start while held-out regret fell to 40%" in note


def test_entropy_lost_for_nothing_and_without_a_cause_is_not_praised() -> None:
    rows = record(entropy=(2.8, 1.0), regret_cp=(300.0, 290.0))
    diagnosis = diagnose(rows)
    assert diagnosis.verdict == "unexplained collapse" and not diagnosis.causes
    assert diagnosis.exit_code == 1
    assert any("nothing was bought" in note for note in diagnosis.notes)


def test_a_collapse_keeps_its_name_although_regret_improved() -> None:
    rows = record(entropy=(2.8, 1.0), regret_cp=(300.0, 120.0), rollout__repeated_fraction=0.9)
    assert diagnose(rows).verdict == "collapse"


def test_causes_are_ranked_by_confidence_and_equals_by_what_comes_first() -> None:
    rows = record(
        rollout__repeated_fraction=0.6,  # confidence .8
        clip__up_p_01_10=0.4, clip__up_p_10_50=0.4,  # .9
        reg__controller_saturated=1.0,  # .9, and the samples' and terms' rules stand before
        step0__log_odds_slope=1.3, ratio__std_first_minibatch=0.3,  # .99
    )  # fmt: skip
    diagnosis = diagnose(rows)
    assert [(c.name, round(c.confidence, 2)) for c in diagnosis.causes] == [
        ("temperature_mismatch", 0.99),
        ("saturated_controller", 0.9),
        ("clip_asymmetry", 0.9),
        ("fixed_positions", 0.8),
    ]
    assert diagnosis.line().startswith("impaired: temperature_mismatch (99%); ")


def test_a_record_with_one_evaluation_has_a_cause_or_no_verdict() -> None:
    healthy = record()[:-1]
    assert len(healthy) == UPDATES
    diagnosis = diagnose(healthy)
    assert diagnosis.verdict == "too short" and diagnosis.exit_code == 0
    assert "1 evaluations on record" in diagnosis.notes[0]
    faulty = diagnose(SIGNATURES["temperature"].rows[:-1])
    assert faulty.verdict == "impaired" and faulty.causes[0].name == "temperature_mismatch"


@pytest.mark.parametrize("metric", ["policy/entropy", "reg/entropy_sampled", "eval/entropy"])
def test_an_entropy_above_that_of_218_moves_is_called_impossible(metric: str) -> None:
    rows = record()
    rows[-1][metric] = 5.39
    assert any(f"{metric} reaches 5.39 nats" in note for note in diagnose(rows).notes)
    rows[-1][metric] = 5.38
    assert not any("ln 218" in note for note in diagnose(rows).notes)


def test_an_entropy_above_that_of_the_legal_moves_is_called_impossible_once() -> None:
    rows = record(policy__entropy=3.4, policy__entropy_bound=3.3)
    (note,) = (n for n in diagnose(rows).notes if "impossible" in n)
    assert "policy/entropy is 3.400 where the legal moves allow 3.300" in note
    assert diagnose(record(policy__entropy=3.3, policy__entropy_bound=3.3)).notes == ()


def test_a_short_record_still_says_what_is_impossible() -> None:
    notes = diagnose(record(2, policy__entropy=6.0)).notes
    assert "2 updates on record" in notes[0] and "6.00 nats" in notes[1]


def test_the_peak_of_a_flat_run_is_noise_and_that_of_a_learning_one_is_not_looked_at() -> None:
    flat = diagnose(record(regret_cp=(300.0, 299.0))).notes
    assert any("is noise" in note and "0.12 at update 2" in note for note in flat)
    assert not any("noise" in note for note in diagnose(record()).notes)
    lone = [0.1, 0.12, 0.1, 0.12, 0.1, 0.12, 0.1, 0.12, 0.1, 0.12, 0.1, 9.0]
    real = diagnose(record(regret_cp=(300.0, 299.0), rollout__reward_mean=lone)).notes
    assert not any("noise" in note for note in real)


def test_a_peak_that_cannot_be_judged_is_not_called_noise() -> None:
    once = [0.0] * 11 + [0.12]
    assert diagnose(record(regret_cp=(300.0, 299.0), rollout__reward_mean=once)).notes == ()


def test_a_reward_that_never_changes_has_no_peak() -> None:
    assert diagnose(record(regret_cp=(300.0, 299.0), rollout__reward_mean=0.0)).notes == ()


@pytest.mark.parametrize(
    ("verdict", "code"),
    [("healthy", 0), ("not a collapse", 0), ("too short", 0), ("impaired", 1), ("collapse", 1)],
)
def test_the_exit_code_says_whether_a_cause_was_found(
    verdict: str, code: int, tmp_path: Path
) -> None:  # fmt: skip
    folder = write(tmp_path / "run", ROWS[verdict])
    out = chess_lab("diagnose", folder)
    assert out.code == code
    assert out.out.startswith(f"verdict: {verdict}\n") and out.err == ""


def test_json_is_the_documented_object_and_nothing_else_is_printed(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", SIGNATURES["stale"].rows)
    out = chess_lab("diagnose", folder, "--json")
    assert out.code == 1
    found = json.loads(out.out)
    assert out.err == "" and set(found) == {"verdict", "causes", "notes"}
    (cause,) = found["causes"]
    assert list(cause) == ["name", "confidence", "evidence", "remedy", "confirm"]
    assert cause["name"] == "stale_behaviour" and cause["confidence"] == 0.95
    assert cause["confirm"].startswith("chess-lab train --like RUN ")


def test_the_command_to_confirm_stands_on_one_line_with_the_folder_quoted(tmp_path: Path) -> None:
    folder = write(tmp_path / f"<b>{'long' * 20} run", SIGNATURES["stale"].rows)
    code, out, _ = chess_lab("diagnose", folder)
    wanted = f"chess-lab train --like '{folder}' --rollout.sync-interval-updates 1"
    assert code == 1 and any(line.endswith(wanted) for line in out.splitlines())


def test_neither_settings_nor_the_folders_name_change_the_verdict(tmp_path: Path) -> None:
    folder = write(tmp_path / "temperature-1.3", SIGNATURES["large steps"].rows)
    (folder / "config.json").write_text('{"seed": 1}')
    (folder / "environment.json").write_text("{}")
    before = chess_lab("diagnose", folder, "--json")
    (folder / "config.json").write_text("{damaged")  # it is not even read
    assert chess_lab("diagnose", folder, "--json") == before
    (folder / "config.json").unlink()
    (folder / "environment.json").unlink()
    assert chess_lab("diagnose", folder.rename(tmp_path / "x"), "--json") == before


UNREADABLE = {
    "missing": (None, "cannot be read"),
    "empty": ("", "holds no complete row"),
    "only a cut line": ('{"step": 0, "eval', "holds no complete row"),
    "not JSON": ("hello\n", "line 1 is damaged: 'hello"),
    "a list": ("[1, 2]\n", "line 1 is '[1, 2]', expected an object"),
    "a string": (
        '{"step": 0, "eval/entropy": "2.8"}\n',
        "'eval/entropy' is '2.8', expected a number",
    ),
    "two runs": ('{"step": 3}\n{"step": 0}\n', "line 2: step is 0"),
    "no step": ('{"eval/entropy": 2.8}\n', "step is None"),
}


@pytest.mark.parametrize("case", list(UNREADABLE))
def test_a_record_that_cannot_be_read_is_named_and_ends_with_2(case: str, tmp_path: Path) -> None:
    text, message = UNREADABLE[case]
    if text is not None:
        (tmp_path / "metrics.jsonl").write_text(text)
    out = chess_lab("diagnose", tmp_path, "--json")
    assert out.code == 2
    assert out.out == "" and "Traceback" not in out.err
    assert out.err.startswith(f"chess-lab diagnose: {tmp_path / 'metrics.jsonl'}")
    assert message in out.err


def test_a_folder_in_the_records_place_and_no_folder_at_all_are_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    for path in (tmp_path, tmp_path / "nowhere"):
        code, _, err = chess_lab("diagnose", path)
        assert code == 2 and str(path / "metrics.jsonl") in err


def test_a_last_line_cut_by_a_kill_is_left_out(tmp_path: Path) -> None:
    rows = SIGNATURES["saturated"].rows
    whole = diagnose_run(write(tmp_path / "whole", rows))
    cut = write(tmp_path / "cut", rows)
    with (cut / "metrics.jsonl").open("a") as file:
        file.write('{"step": 99, "reg/controller_satur')
    assert diagnose_run(cut) == whole and whole.causes


def test_columns_that_no_run_writes_change_nothing(tmp_path: Path) -> None:
    rows = [row | {"my/own <b>metric</b>": 1e300, "": None} for row in ROWS["impaired"]]
    assert diagnose_run(write(tmp_path / "run", rows)) == diagnose(ROWS["impaired"])


def test_nulls_everywhere_and_numbers_too_long_for_a_float_give_a_sensible_verdict(
    tmp_path: Path,
) -> None:
    nulls = [{k: v if k == "step" else None for k, v in row.items()} for row in record()]
    assert diagnose_run(write(tmp_path / "nulls", nulls)).verdict == "too short"
    counted = [row | ({"train/steps": 8} if row["step"] else {}) for row in nulls]
    assert diagnose_run(write(tmp_path / "counted", counted)).verdict == "too short"
    long = [{k: v if k == "step" else 10**400 for k, v in row.items()} for row in record()]
    assert diagnose_run(write(tmp_path / "long", long)).verdict == "too short"


@pytest.mark.parametrize("null", [False, True], ids=["absent", "null"])
@pytest.mark.parametrize(
    "case", ["surrogate out of range", "the same starts", "sharp", "large steps"]
)
def test_no_missing_metric_makes_a_traceback(case: str, null: bool) -> None:
    rows = SIGNATURES[case].rows
    for metric in {name for row in rows for name in row} - {"step"}:
        less = diagnose(without(rows, metric, null=null))
        assert "RUN" not in "\n".join(command.written(less, "here"))
        assert " nan" not in " ".join(cause.confirm for cause in less.causes)


@pytest.mark.parametrize(
    "rows", [ROWS["healthy"], SIGNATURES["stale"].rows], ids=["healthy", "stale"]
)
def test_what_watches_a_run_agrees_with_the_doctor_at_every_evaluation(
    rows: list[dict[str, Any]],
) -> None:
    rows = [dict(row) for row in rows]
    rows[2] |= {"eval/regret_cp": 290.0, "eval/entropy": 2.8}  # too short there
    rows[7] |= {"eval/regret_cp": 220.0, "eval/entropy": 2.7}
    watch, said = Watch(), []
    for number, row in enumerate(rows, start=1):
        said.append(watch(row))
        if "eval/regret_cp" in row:
            diagnosis = diagnose(rows[:number])
            expected = "" if diagnosis.verdict == "too short" else diagnosis.line()
            assert said[-1] == expected
    assert said[:7] == 7 * [""] and said[7] and said[8:-1] == said[7:-2]  # kept in between


def test_rows_that_a_continued_run_plays_again_count_once() -> None:
    rows = SIGNATURES["stale"].rows
    watch = Watch(rows[:10])  # the checkpoint was at step 6
    said = [watch(row) for row in rows[7:]]
    assert said[-1] == diagnose(rows).line()
    assert "stale_behaviour" in said[-1]
