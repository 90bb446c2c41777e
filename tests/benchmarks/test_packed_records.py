"""Packed records of the doctor's matrix hold what its rules read, and are judged as the runs are."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks.doctor import packed
from benchmarks.doctor.judge import records

ROWS: list[dict[str, Any]] = [
    {"step": 0, "eval/regret_cp": 285.123456789, "time/wall_s": 1.5, "crc32": 7},
    {"step": 1, "policy/entropy": 1e-9 / 3, "reg/kl_old": None, "ratio/ess": math.inf},
    {"step": 2, "policy/entropy": math.nan, "rollout/name": "warm"},
]


def make_run(folder: Path, name: str, seed: str, rows: list[dict[str, Any]]) -> None:
    place = folder / name / seed
    place.mkdir(parents=True)
    (place / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_packed_run_has_its_rows_without_clocks_and_with_six_digits(tmp_path: Path) -> None:
    packed.write(tmp_path / "5.json.xz", {"cell": ROWS})
    (rows,) = packed.read(packed.seeds(tmp_path)[5]).values()
    assert rows[0] == {"step": 0, "eval/regret_cp": 285.123}
    assert rows[1] == {
        "step": 1,
        "policy/entropy": 3.33333e-10,
        "reg/kl_old": None,
        "ratio/ess": math.inf,
    }
    assert math.isnan(rows[2].pop("policy/entropy"))
    assert rows[2] == {"step": 2, "rollout/name": "warm"}


def test_packed_records_and_runs_are_found_alike(tmp_path: Path) -> None:
    runs, kept = tmp_path / "runs", tmp_path / "kept"
    rows = [{"step": 0, "eval/regret_cp": 2.5}, {"step": 1, "eval/regret_cp": 1.5}]
    make_run(runs, "one", "5", rows)
    make_run(runs, "one", "6", rows[:1])
    make_run(runs, "other", "5", rows)
    make_run(runs, "other", "6.running.99", rows)
    make_run(runs, "broken", "5", rows)
    (runs / "broken" / "5" / "error.txt").write_text("no")
    for path in packed.finished(runs):
        seed = int(path.parent.name)
        file = kept / f"{seed}.json.xz"
        there = packed.read(file) if file.exists() else {}
        packed.write(file, {**there, path.parent.parent.name: packed.read_lines(path)})
    assert records(kept) == records(runs)
    assert {name: sorted(found) for name, found in records(runs).items()} == {
        "one": [5, 6],
        "other": [5],
    }
