"""A flipped bit in metrics.jsonl or config.json is found: named by what reads it, refused by what goes on from it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from algorithms.config import files as config_file
from algorithms.reports.run_files import RunFileError, read_metrics, read_run
from algorithms.run_folder.files import RunFolderError, closed_object, object_intact
from algorithms.run_folder.log import RunLog
from algorithms.run_folder.rows import closed_row, rows_of
from algorithms.training.trainer import train
from tests.commands.lab import chess_lab
from tests.training.runs import Watcher, rows_without_time, tiny

ROWS = [{"step": 0, "eval/entropy": 3.25}, {"step": 1, "eval/entropy": None, "reg/kl_old": -1e-09}]
FLIPS = 60


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


def test_every_flipped_bit_of_a_record_is_found() -> None:
    for data in flipped(b"".join(map(closed_row, ROWS))):
        try:
            rows = rows_of(data.decode(), "record")
        except ValueError:  # it is no JSON, or no text, any more, and said to be damaged
            continue
        assert rows.altered, data


def test_every_flipped_bit_of_a_configuration_is_found() -> None:
    written = closed_object({"algorithm": {"name": "grpo"}, "seed": 0, "label": "deadbeef" * 8})
    assert object_intact(written) is True
    assert {object_intact(data) for data in flipped(written)} == {False}


def test_random_flips_of_each_file_of_a_run_are_all_found(copy: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("metrics.jsonl", "config.json"):
        written = (copy / name).read_bytes()
        for bit in rng.integers(8 * len(written), size=FLIPS):
            changed = bytearray(written)
            changed[bit // 8] ^= 1 << bit % 8
            (copy / name).write_bytes(changed)
            with pytest.raises(ValueError):
                read_metrics(copy)
                config_file.read_settings(copy / "config.json")
            try:
                notes = read_run(copy).notes
            except RunFileError as error:
                notes = (str(error),)
            assert any("checksum" in note or name in note for note in notes), bit
        (copy / name).write_bytes(written)
    assert read_run(copy).notes == ()


def test_report_and_diagnose_name_an_altered_row_and_read_it(copy: Path) -> None:
    edited(copy / "metrics.jsonl", '"scored_moves": 64', '"scored_moves": 65')
    assert read_run(copy).rows[1]["scored_moves"] == 65.0
    says = "metrics.jsonl, line 2 does not match its checksum: it was damaged or edited."
    assert chess_lab("report", copy).code == 0
    assert says in (copy / "report.html").read_text()
    answer = chess_lab("diagnose", copy, "--json")
    assert any(note.startswith(says) for note in json.loads(answer.out)["notes"])


def test_report_and_diagnose_name_altered_settings(copy: Path) -> None:
    edited(copy / "config.json", '"group_size": 4', '"group_size": 5')
    assert read_run(copy).config["algorithm"]["group_size"] == 5
    says = "config.json does not match its checksum: it was damaged or edited."
    assert chess_lab("report", copy).code == 0
    assert says in (copy / "report.html").read_text()
    assert says in " ".join(chess_lab("diagnose", copy).out.split())


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("metrics.jsonl", '"plies": 16', '"plies": 17'), ("config.json", '"seed": 0', '"seed": 1')],
)
def test_a_run_whose_files_were_altered_is_not_continued(
    copy: Path, name: str, old: str, new: str
) -> None:
    edited(copy / name, old, new)
    answer = chess_lab("train", "--resume", copy)
    assert answer.code == 1 and "Traceback" not in answer.err
    assert f"{copy / name}" in answer.err and "checksum" in answer.err
    with pytest.raises((RunFolderError, ValueError), match=f"{name}.* checksum"):
        train(tiny(copy, updates=3), resume=True, display=Watcher())


def test_what_was_altered_on_purpose_is_used_without_its_checksum(copy: Path) -> None:
    settings = (copy / "config.json").read_text().splitlines(keepends=True)
    assert "sha256" in settings[1]
    (copy / "config.json").write_text("".join([settings[0], *settings[2:]]))
    record = (copy / "metrics.jsonl").read_text().splitlines()
    record[1] = record[1].partition(', "crc32"')[0].replace('"plies": 16', '"plies": 17') + "}"
    (copy / "metrics.jsonl").write_text("\n".join(record) + "\n")
    display = Watcher()
    train(tiny(copy, updates=3), resume=True, display=display)
    assert "config.json has no checksum" in display.messages[0]
    assert "has no checksums of" in display.messages[1]
    assert [row["plies"] for row in read_metrics(copy)] == [0, 17, 32, 48]
    assert object_intact((copy / "config.json").read_bytes()) is True


def test_a_run_that_an_older_version_began_goes_on_with_checksums(
    copy: Path, run_dir: Path
) -> None:
    values = json.loads((copy / "config.json").read_text())
    values.pop("sha256")
    (copy / "config.json").write_text(json.dumps(values, indent=2) + "\n")
    rows = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row.pop("crc32")
    (copy / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert rows_without_time(copy) == rows_without_time(run_dir)
    notes = " ".join(read_run(copy).notes)
    assert "no checksums of its rows" in notes and "config.json has no checksum" in notes
    assert "no checksums of its rows" in " ".join(chess_lab("diagnose", copy).out.split())
    display = Watcher()
    train(tiny(copy, updates=4), resume=True, display=display)
    assert "has no checksums of" in display.messages[1]
    assert any("no checksums of 3 rows" in note for note in read_run(copy).notes)


def test_a_record_cut_at_any_byte_goes_on_from_the_rows_before(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = [closed_row({"step": 0, "plies": 4}), closed_row({"step": 1, "plies": 8})]
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


def test_a_record_whose_last_line_lost_its_end_to_a_flip_is_damaged(tmp_path: Path) -> None:
    line = closed_row({"step": 0})
    for bit in range(8):
        (tmp_path / "metrics.jsonl").write_bytes(line[:-1] + bytes([line[-1] ^ 1 << bit]))
        with pytest.raises(RunFileError, match="line 1 is damaged|no UTF-8 text"):
            read_metrics(tmp_path)
