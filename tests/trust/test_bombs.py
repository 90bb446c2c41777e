"""No small file takes 300 MB or five seconds from the process that opens it, all that Python loads included."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.lab import unwrapped
from tests.reports.run_folders import config, learning_rows, write_run
from tests.trust.bombs import (
    MEBI,
    claims_a_terabyte,
    in_zip,
    nested,
    npy,
    safetensors,
    wide,
)
from tests.trust.measured import measured

MOST_MB, MOST_S = 300.0, 5.0
REPORT = "from algorithms import cli; sys.exit(cli.main(['report', path]))"
WEIGHTS = "from algorithms.networks.build import read_weights; read_weights(path)"
PROBE = "from algorithms.reports.probe_files import read_probe; read_probe(Path(path))"


def run_with(name: str, data: bytes) -> Callable[[Path], Path]:
    """Makes the folder of a run one file of which holds `data`."""

    def make(folder: Path) -> Path:
        write_run(folder / "run", learning_rows(), config())
        (folder / "run" / name).write_bytes(data)
        return folder / "run"

    return make


def one_file(make_data: Callable[[], bytes], suffix: str) -> Callable[[Path], Path]:
    """Makes a file that holds what `make_data` gives."""

    def make(folder: Path) -> Path:
        (folder / f"file{suffix}").write_bytes(make_data())
        return folder / f"file{suffix}"

    return make


def hole(folder: Path) -> Path:
    """Makes the folder of a run whose record is a terabyte without a line's end."""
    run = run_with("metrics.jsonl", b"")(folder)
    os.truncate(run / "metrics.jsonl", 2**40)
    return run


def zeros() -> bytes:
    """An archive of an array of 256 MiB, packed into 256 KiB."""
    return in_zip({"a.npy": npy("<f4", (64, MEBI), bytes(256 * MEBI))})


BOMBS: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "settings of nested lists": (run_with("config.json", nested()), REPORT, "larger than"),
    "settings of three million objects": (run_with("config.json", wide()), REPORT, "larger than"),
    "a record of three million objects": (run_with("metrics.jsonl", wide()), REPORT, "1,048,576"),
    "a record of a terabyte": (hole, REPORT, "1,048,576"),
    "weights of a terabyte": (one_file(claims_a_terabyte, ".safetensors"), WEIGHTS, "cannot be read"),
    "weights with a header of a terabyte": (
        one_file(lambda: safetensors(None, length=2**40), ".safetensors"), WEIGHTS, "cannot be read",
    ),
    "an array of a terabyte": (
        one_file(lambda: in_zip({"a.npy": npy("<f4", (2**38,))}), ".npz"), PROBE, "claims the shape",
    ),
    "an archive of zeros": (one_file(zeros, ".npz"), PROBE, "unpacks to 268,435,584 bytes"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_costs_less_than_300_megabytes_and_five_seconds(bomb: str, tmp_path: Path) -> None:
    make, program, said = BOMBS[bomb]
    begin = "import sys; from pathlib import Path; path = sys.argv[1]\n"
    seen = measured(sys.executable, "-c", begin + program, make(tmp_path))
    print(f"{bomb}: {seen.peak_mb:.0f} MB, {seen.cpu_s:.1f} s of processor time")
    assert seen.code == (1 if said else 0), seen.err
    assert re.search(said, unwrapped(seen.err)), seen.err
    assert seen.peak_mb < MOST_MB
    # By the clock, a loaded machine takes longer for anything.
    assert seen.cpu_s < MOST_S
