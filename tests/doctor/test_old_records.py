"""Records from before the signal chain are read, and their best verdict says what they do not show."""

from __future__ import annotations

from pathlib import Path

from algorithms.doctor import diagnose
from algorithms.doctor.diagnosis import AS_USUAL, LEARNS, UNMEASURED
from benchmarks.doctor import packed

ROOT = Path(__file__).parents[2]


def test_old_records_are_read_and_are_never_given_the_best_verdict() -> None:
    path = sorted((ROOT / "benchmarks/data/doctor").glob("*.json.xz"))[0]
    runs = packed.read(path)
    verdicts = {name: diagnose(rows).verdict for name, rows in list(runs.items())[::7]}
    assert len(verdicts) > 10 and not {AS_USUAL, LEARNS} & set(verdicts.values())
    assert UNMEASURED in verdicts.values()
    faulty = diagnose(runs["temperature_mismatch-full"])
    assert faulty.causes[0].name == "temperature_mismatch" and faulty.chain.measured == 0
