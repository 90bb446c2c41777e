"""A flipped bit in config.json is found, and a record that a kill cut off goes on from the rows before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from algorithms.reports.run_files import read_metrics, read_run
from algorithms.run_folder.atomic_files import (
    RunFolderError,
    closed_object,
    object_intact,
    replace_file,
)
from algorithms.run_folder.run_log import RunLog
from algorithms.training.trainer import train
from tests.commands.lab import chess_lab
from tests.training.runs import Watcher, tiny


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two updates."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(tiny(folder, updates=2), display=Watcher())
    return folder


@pytest.fixture
def copy(run_dir: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run_dir, tmp_path / "copy", symlinks=True)


def flipped(data: bytes) -> Iterator[bytes]:
    """The data with each of its bits flipped in turn."""
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def edited(path: Path, old: str, new: str) -> None:
    """Replaces a text in a file, whose checksums stay."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_flipped_bit_of_a_configuration_is_found() -> None:
    written = closed_object({"algorithm": {"name": "grpo"}, "seed": 0, "label": "deadbeef" * 8})
    assert object_intact(written) is True
    assert {object_intact(data) for data in flipped(written)} == {False}


def test_report_and_diagnose_name_altered_settings(copy: Path) -> None:
    edited(copy / "config.json", '"group_size": 4', '"group_size": 5')
    assert read_run(copy).config["algorithm"]["group_size"] == 5
    says = "config.json does not match its checksum: it was damaged or edited."
    assert chess_lab("report", copy).code == 0
    assert says in (copy / "report.html").read_text()
    assert says in " ".join(chess_lab("diagnose", copy).out.split())


def test_a_run_whose_settings_were_altered_is_not_continued(copy: Path) -> None:
    edited(copy / "config.json", '"seed": 0', '"seed": 1')
    answer = chess_lab("train", "--resume", copy)
    assert answer.code == 1 and "Traceback" not in answer.err
    assert f"{copy / 'config.json'}" in answer.err and "checksum" in answer.err
    with pytest.raises((RunFolderError, ValueError), match=r"config.json.* checksum"):
        train(tiny(copy, updates=3), resume=True, display=Watcher())


def test_settings_that_were_altered_on_purpose_are_used_without_their_checksum(copy: Path) -> None:
    settings = (copy / "config.json").read_text().splitlines(keepends=True)
    assert "sha256" in settings[1]
    (copy / "config.json").write_text("".join([settings[0], *settings[2:]]))
    assert any("config.json has no checksum" in note for note in read_run(copy).notes)
    display = Watcher()
    train(tiny(copy, updates=3), resume=True, display=display)
    assert "config.json has no checksum" in display.messages[0]
    assert object_intact((copy / "config.json").read_bytes()) is True


def test_the_checksums_of_older_records_are_no_metrics(copy: Path, run_dir: Path) -> None:
    path = copy / "metrics.jsonl"
    lines = [f'{line[:-1]}, "crc32": "00c0ffee"}}' for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    assert read_metrics(copy) == read_metrics(run_dir) and read_run(copy).notes == ()
    train(tiny(copy, updates=3), resume=True, display=Watcher())
    assert [row["step"] for row in read_metrics(copy)] == [0, 1, 2, 3]


def test_a_record_cut_at_any_byte_goes_on_from_the_rows_before(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = [b'{"step": 0, "plies": 4}\n', b'{"step": 1, "plies": 8}\n']
    for cut in (0, 1, 20, len(whole[1]) - 2, len(whole[1]) - 1):
        path.write_bytes(whole[0] + whole[1][:cut])
        rows = read_metrics(tmp_path)  # while it is written, or after a kill
        assert [row["step"] for row in rows] == ([0, 1] if cut == len(whole[1]) - 1 else [0])
        log = RunLog(tmp_path, resume_at=len(rows) - 1)
        log.write({"step": 2})
        log.close()
        assert [row["step"] for row in read_metrics(tmp_path)] == [row["step"] for row in rows] + [
            2
        ]


def test_a_file_and_then_its_new_name_are_on_disk_before_it_counts_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    replace = os.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: done.append(Path(f"/proc/self/fd/{fd}").readlink().name)
    )
    monkeypatch.setattr(os, "replace", lambda *both: (done.append("replace"), replace(*both)))
    replace_file(tmp_path / "x.json", b"{}")
    assert done == [".x.json.partial", "replace", tmp_path.name]
