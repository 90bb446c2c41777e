"""Probe files are whole or absent, say what they hold, and are read with NumPy alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from algorithms.reports import probe_files
from algorithms.reports.probe_files import (
    ProbeSheet,
    probe_path,
    probed_updates,
    read_probe,
    read_probes,
    write_probe,
)

ROOT = Path(__file__).parents[2]
SHEET = ProbeSheet(
    kinds=("opening", "forced"),
    legal_ids=np.array([[3, 7, 9], [5, -1, -1]], np.int16),
    positions=np.arange(16, dtype=np.uint64).reshape(2, 8),
    set_sha256="abc",
)
LOGPROBS = np.log(np.array([[0.5, 0.25, 0.25], [1.0, 0.5, 0.5]]))


def test_what_is_written_is_read_back_with_nan_on_padding(tmp_path: Path) -> None:
    for update in (10, 0, 100_000_010):
        path = write_probe(tmp_path, update, LOGPROBS - update * 1e-9, 1.3, SHEET)
    assert path.name == "100000010.npz"
    assert probe_path(tmp_path, 10) == tmp_path / "probes" / "00000010.npz"
    probes = read_probes(tmp_path)
    assert probes.updates.tolist() == [0, 10, 100_000_010] == probed_updates(tmp_path)
    assert probes.logprobs.shape == (3, 2, 3) and probes.logprobs.dtype == np.float32
    assert probes.logprobs[0, 0].tolist() == LOGPROBS[0].astype(np.float32).tolist()
    assert np.isnan(probes.logprobs[:, 1, 1:]).all() and probes.logprobs[0, 1, 0] == 0
    assert probes.temperature == 1.3
    sheet = probes.sheet
    assert (sheet.kinds, sheet.set_sha256) == (SHEET.kinds, "abc")
    assert sheet.legal_ids.dtype == np.int16 and (sheet.legal_ids == SHEET.legal_ids).all()
    assert sheet.positions.dtype == np.uint64 and (sheet.positions == SHEET.positions).all()


def test_a_file_is_replaced_as_a_whole_and_the_same_content_gives_the_same_bytes(
    tmp_path: Path,
) -> None:
    first = write_probe(tmp_path, 5, LOGPROBS, 1.0, SHEET).read_bytes()
    write_probe(tmp_path, 5, LOGPROBS - 1, 1.0, SHEET)
    assert write_probe(tmp_path, 5, LOGPROBS, 1.0, SHEET).read_bytes() == first
    assert [path.name for path in (tmp_path / "probes").iterdir()] == ["00000005.npz"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_probe(tmp_path, 5, LOGPROBS, 1.0, SHEET)
    old = path.read_bytes()

    def full(file: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(probe_files.np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space"):
        write_probe(tmp_path, 5, LOGPROBS - 1, 1.0, SHEET)
    assert path.read_bytes() == old
    assert list(path.parent.iterdir()) == [path]


def test_log_probabilities_of_another_shape_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 2\) and legal_ids \(2, 3\)"):
        write_probe(tmp_path, 0, LOGPROBS[:, :2], 1.0, SHEET)
    assert not (tmp_path / "probes").exists()


def test_a_run_without_probes_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no probe"):
        read_probes(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"00000003\.npz is missing"):
        read_probe(probe_path(tmp_path, 3))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write_probe(tmp_path, 0, LOGPROBS, 1.0, SHEET)
    path = write_probe(tmp_path, 1, LOGPROBS, 1.0, SHEET)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"00000001\.npz cannot be read .* delete it"):
        read_probes(tmp_path)
    np.savez(path, update=np.int64(1))
    with pytest.raises(
        ValueError, match=r"00000001\.npz cannot be read .*is not a file in the archive"
    ):
        read_probes(tmp_path)
    short = ProbeSheet(SHEET.kinds[:1], SHEET.legal_ids, SHEET.positions, "abc")
    write_probe(tmp_path, 1, LOGPROBS, 1.0, short)
    with pytest.raises(ValueError, match=r"00000001\.npz is inconsistent"):
        read_probes(tmp_path)


def test_files_of_another_set_temperature_or_update_are_not_mixed(tmp_path: Path) -> None:
    write_probe(tmp_path, 0, LOGPROBS, 1.0, SHEET)
    other = ProbeSheet(SHEET.kinds, SHEET.legal_ids, SHEET.positions, "def")
    path = write_probe(tmp_path, 1, LOGPROBS, 1.0, other)
    with pytest.raises(ValueError, match=r"00000001\.npz and .*different sets of positions"):
        read_probes(tmp_path)
    write_probe(tmp_path, 1, LOGPROBS, 1.3, SHEET)
    with pytest.raises(ValueError, match=r"at temperature 1\.3"):
        read_probes(tmp_path)
    write_probe(tmp_path, 2, LOGPROBS, 1.0, SHEET).rename(path)
    with pytest.raises(ValueError, match=r"00000001\.npz says that it is of update 2"):
        read_probes(tmp_path)


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    write_probe(tmp_path, 4, LOGPROBS, 1.0, SHEET)
    for name in ("notes.npz", "0004.npz", "00000005.partial-17"):
        (tmp_path / "probes" / name).write_text("?")
    assert probed_updates(tmp_path) == [4]
    assert read_probes(tmp_path).updates.tolist() == [4]


def test_the_reader_needs_neither_torch_nor_chess() -> None:
    code = (
        "import sys, algorithms.reports.probe_files\n"
        "print({'torch', 'chess', 'chess_env', 'numba'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
