"""What watches a run agrees with the doctor."""

from __future__ import annotations

from algorithms.doctor import Watch, diagnose
from tests.doctor.rows import Rows, record
from tests.doctor.signatures import SIGNATURES


def lines(rows: Rows, watch: Watch | None = None) -> list[str]:
    """What is said after each row."""
    watch = Watch() if watch is None else watch
    said = [watch(row) for row in rows]
    assert all(line == "" or line.startswith("doctor: ") for line in said)
    return [line.removeprefix("doctor: ") for line in said]


def test_the_line_is_renewed_at_every_evaluation_and_kept_in_between() -> None:
    said = lines(record(entropy=(2.8, 1.6)))
    assert said[:4] == [""] * 4
    assert said[4:12] == ["learning, entropy kept"] * 8
    assert said[12:] == ["learning, entropy spent on learning"] * 5


def test_a_run_that_has_not_learned_yet_is_not_condemned() -> None:
    assert lines(record(regret_cp=(300.0, 299.0)))[-1] == "not learning yet, entropy kept"
    assert lines(record(regret_cp=(300.0, 350.0)))[-1] == "getting worse, entropy kept"


def test_a_cause_that_does_harm_is_named_as_the_doctor_names_it() -> None:
    for case in ("temperature", "stale", "temperature, late", "a sharp optimum"):
        rows = SIGNATURES[case].rows
        said = lines(rows)
        assert said[-1] == diagnose(rows).line() and SIGNATURES[case].name in said[-1]
    assert lines(SIGNATURES["rounding"].rows)[-1] == "learning, entropy kept"


def test_a_fault_of_the_samples_is_said_at_the_first_evaluation_however_early() -> None:
    rows = SIGNATURES["temperature"].rows[:2]
    rows[1] |= {"eval/regret_cp": 299.0, "eval/entropy": 2.8}
    assert "temperature_mismatch" in lines(rows)[-1]


def test_what_cannot_be_told_is_counted_and_a_loss_without_a_cause_is_said() -> None:
    bare = [{k: v for k, v in row.items() if not k.startswith("ratio/")} for row in record()]
    assert (
        lines(bare)[-1]
        == f"learning, entropy kept; {len(diagnose(bare).untold)} causes cannot be told"
    )
    lost = record(entropy=(2.8, 0.7), regret_cp=(300.0, 290.0))
    assert lines(lost)[-1].startswith("unexplained collapse: not learning, entropy lost")


def test_rows_that_a_continued_run_plays_again_count_once() -> None:
    rows = SIGNATURES["stale"].rows
    said = lines(rows[7:], Watch(rows[:10]))  # the checkpoint was at step 6
    assert said[-1] == diagnose(rows).line()


def test_a_long_run_keeps_its_first_rows_and_its_newest() -> None:
    watch = Watch([{"step": float(step)} for step in range(3_000)])
    for step in range(3_000, 5_000):
        watch({"step": float(step)})
    steps = [row["step"] for row in watch._rows]
    assert steps == [*range(256), *range(5_000 - 1_792, 5_000)]
