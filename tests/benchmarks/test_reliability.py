"""What the measurements of reliability count, in small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reliability.shared_cache import shared
from benchmarks.reliability.watching import Sample, growth, longest_zombie_s

ROOT = Path(__file__).parents[2]


def samples(resident_mb: list[float], zombies: dict[int, tuple[int, ...]]) -> list[Sample]:
    """Samples, one a second."""
    return [
        Sample(float(at), mb, 10, (7, 8), zombies.get(at, ())) for at, mb in enumerate(resident_mb)
    ]


def test_growth_leaves_the_first_third_out_and_compares_medians_of_two_sixths() -> None:
    found = growth(samples([50.0] * 20 + [100.0] * 20 + [103.0] * 21, {}))
    assert found["memory_growth_percent"] == 3.0
    assert (found["resident_mb_at_start"], found["resident_mb_at_end"]) == (100.0, 103.0)
    assert found["processes_at_start"] == found["processes_at_end"] == 2
    assert found["descriptors_most"] == 10


def test_a_zombie_is_as_old_as_the_samples_that_show_it_one_after_the_other() -> None:
    seen = samples([50.0] * 8, {1: (7,), 2: (7, 8), 3: (7,), 5: (7,)})
    assert longest_zombie_s(seen) == 2.0


@pytest.mark.slow
def test_two_processes_on_one_cache_lose_nothing_and_see_no_lock(tmp_path: Path) -> None:
    row = shared(tmp_path, processes=2, keys=10_000, seed=0)
    assert row["distinct_keys"] == 15_000
    assert (row["lost"], row["wrong"], row["locked"], row["warnings"]) == (0, 0, 0, 0)


@pytest.mark.slow
@pytest.mark.stockfish
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_half_a_minute_of_faults_changes_nothing_that_a_run_comes_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.reliability.soak", "--minutes", "1", "--seed", "1"]
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "soak.json")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (tmp_path / "soak.json").exists(), done.stderr
    record = json.loads((tmp_path / "soak.json").read_text())
    row, said = record["rows"][0], record["settings"]
    for verdict in ("weights_equal", "rows_equal", "state_equal", "files_equal", "no_process_left"):
        assert said[verdict], done.stdout
    assert said["no_row_lost_by_a_tracker_that_hung"]
    assert row["updates"] == record["rows"][1]["updates"] > 0
    assert row["engine_kills"] >= 5 and row["engine_stalls"] >= 1
    assert row["tracker_stalls"] >= 1 and row["tracker_failures"] == 1
    assert row["memory_growth_percent"] < 10  # half a minute is within the warm-up of a soak
