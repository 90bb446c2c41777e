"""The corpus of broken runs: labels that hang together, packs that come out the same, and the score of any doctor."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from algorithms.doctor import diagnose_run
from algorithms.doctor.diagnosis import AS_USUAL, LEARNS, UNMEASURED
from benchmarks.corpus import chess
from benchmarks.corpus.score import DATA, OURS, Said, harm_of, opened, other, ours, rates, scored

ROOT = Path(__file__).parents[2]
PARTS = sorted(path.name.removesuffix(".tar.xz") for path in DATA.glob("*.tar.xz"))


@pytest.fixture(scope="module")
def folder_of() -> Iterator[Callable[[str], Path]]:
    """Where the runs of a part lie; a part is unpacked once."""
    with contextlib.ExitStack() as kept:
        yield cache(lambda part: kept.enter_context(opened(DATA / f"{part}.tar.xz")))


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=pytest.mark.slow if "early" in part else ()) for part in PARTS],
)
def test_every_run_has_a_log_a_twin_of_its_seed_and_a_cause_only_with_a_fault(
    part: str, folder_of: Callable[[str], Path]
) -> None:
    folder = folder_of(part)
    rows = list(scored(folder, lambda log: Said("", log.stat().st_size == 0, "")))
    labels = [json.loads(path.read_text()) for path in folder.glob("*/label.json")]
    assert len(rows) == len(labels) > 60 and not any(row["flagged"] for row in rows)
    runs = {(label["kind"], label["seed"]) for label in labels}
    faults = [each for each in labels if each.get("fault", each["cause"])]
    alone = [each for each in faults if (each["twin"], each["seed"]) not in runs]
    # Of five seeds of one kind a single run did not end.
    assert len(alone) <= (1 if "early" in part else 0), [each["kind"] for each in alone]
    for row in rows:
        assert row["fault"] or not row["cause"]
    sound = [row for row in rows if not row["fault"]]
    assert sound and (part == "chess_sound" or sum(row["harmful"] for row in rows) > 20)
    assert not any(row["harmful"] for row in sound)


def measured_commands(part: str) -> list[dict[str, Any]]:
    """A row for each printed command that was run."""
    results = ROOT / "benchmarks" / "results"
    return json.loads((results / f"doctor_remedies_{part}.json").read_text())["rows"]


@pytest.mark.parametrize("part", ["open", "sealed"])
def test_the_commands_that_were_run_are_those_that_are_printed(
    part: str, folder_of: Callable[[str], Path]
) -> None:
    folder = folder_of(f"chess_{part}")
    for row in measured_commands(part):
        first = diagnose_run(folder / row["name"]).causes[0]
        assert (first.name, first.verdict.confirm) == (row["cause"], row["command"])


@pytest.mark.parametrize("part", ["open", "sealed", "causes"])
def test_each_command_made_its_run_better(part: str) -> None:
    for row in measured_commands(part):
        learns = row["cured_verdict"] in (AS_USUAL, LEARNS)
        assert learns or row["cured_end_cp"] < row["end_cp"], row["name"]


def test_a_record_in_columns_is_the_record_without_its_clock() -> None:
    rows = [
        {"step": 0, "time/wall_s": 1.5, "eval/regret_cp": 384.0766920},
        {"step": 1, "policy/entropy": float("nan"), "train/loss": None, "note": 0},
    ]
    found = [json.loads(line) for line in chess.lines(chess.columns(rows)).splitlines()]
    assert found[0] == {"step": 0, "eval/regret_cp": 384.077}
    assert (
        found[1]["train/loss"] is None and found[1]["policy/entropy"] != found[1]["policy/entropy"]
    )
    assert list(found[1]) == ["step", "policy/entropy", "train/loss", "note"]
    files = {"b": {"x": b"1", "a": b"2"}, "a": {"x": b"3"}}
    assert chess.packed(files) == chess.packed(dict(reversed(files.items())))


def test_harm_is_what_the_twin_learned_and_the_run_did_not() -> None:
    label = {"kind": "fault", "twin": "sound", "seed": 1, "held_out": 0.4, "nothing_learned": 0.2}
    assert harm_of(label, {("sound", 1): 0.6}) == pytest.approx(0.5)
    assert harm_of(label, {}) == 0.0
    assert harm_of({**label, "harm": -0.25}, {("sound", 1): 0.6}) == -0.25


def test_another_doctor_is_any_command_with_an_exit_code(tmp_path: Path) -> None:
    for kind, fault in (("sound", False), ("bad", True), ("mild", True)):
        run = tmp_path / f"{kind}__1"
        run.mkdir()
        (run / "metrics.jsonl").write_text(kind)
        label = {"kind": kind, "seed": 1, "fault": fault, "cause": "loss_budget" if fault else "",
                 "twin": "sound", "held_out": 0.0, "harm": 0.3 if kind == "bad" else 0.0, "in_log": True}  # fmt: skip
        (run / "label.json").write_text(json.dumps(label))
    script = tmp_path / "doctor.py"
    script.write_text(
        "import json, sys\n"
        "kind = open(sys.argv[1]).read()\n"
        "print(json.dumps({'causes': [{'name': 'loss_budget'}] if kind == 'bad' else []}))\n"
        "sys.exit({'sound': 0, 'bad': 1, 'mild': 3}[kind])\n"
    )
    rows = list(scored(tmp_path, other(f"{sys.executable} {script} {{log}}")))
    found = {row["figure"]: (row["count"], row["of"]) for row in rates(rows)}
    assert found["sound: flagged"] == (0, 1)
    assert found["any harmful: flagged"] == found["any harmful: named first"] == (1, 1)
    assert found["any fault: flagged"] == (1, 2)  # the mild one: cannot tell
    assert found["all: another cause first"] == (0, 3)


def test_early_records_are_read_and_are_never_given_the_best_verdict(tmp_path: Path) -> None:
    baseline, fault = tmp_path / "baseline__29314", tmp_path / "temperature_mismatch-full__29314"
    with chess.archive(DATA / "chess_early_open.tar.xz") as packed:  # of which few are written out
        for number, member in enumerate(packed):
            run = tmp_path / Path(member.name).parent
            if member.name.endswith(f"__29314/{chess.COLUMNS}") and (
                number % 54 == 0 or run in (baseline, fault)
            ):
                run.mkdir()
                (run / OURS).write_text(chess.lines(packed.extractfile(member).read()))  # type: ignore[union-attr]
    verdicts = [diagnose_run(run).verdict for run in tmp_path.iterdir()]
    faulty, said = diagnose_run(fault), ours(baseline / OURS)
    assert len(verdicts) > 10 and not {AS_USUAL, LEARNS} & set(verdicts)
    assert said.flagged is None and said.verdict == UNMEASURED
    assert faulty.causes[0].name == "temperature_mismatch" and faulty.chain.measured == 0
