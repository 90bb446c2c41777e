"""Nothing outside a run folder is created, renamed or changed through it, and no file becomes a cache by mistake."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from algorithms.config.files import read_settings
from algorithms.networks.build import read_weights
from algorithms.run_folder.atomic_files import RunFolderError, refuse_ways_out
from algorithms.run_folder.run_log import record_lines
from chess_env.evaluators import make_evaluator
from tests.commands.lab import Answer, chess_lab
from tests.trust.stranger import Stranger, follow

SECRET = "what belongs to somebody else\n"


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one file, which a stranger would like to have changed."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "diary").write_text(SECRET)
    return folder


def untouched(outside: Path) -> bool:
    """Whether the folder is as it was."""
    files = [path.name for path in outside.rglob("*")]
    return files == ["diary"] and (outside / "diary").read_text() == SECRET


def resumed(stranger: Stranger) -> Answer:
    return chess_lab("train", "--resume", stranger.folder, "--total-moves", "32")


@pytest.mark.parametrize(
    ("name", "target"),
    [(".lock", "diary"), (".lock", "not-there-yet"), ("probes/.update-00000001.npz.partial", "not-there-yet"),
     ("tensorboard/events", "diary"), ("checkpoints/best", "diary"), ("checkpoints/partial-latest-1", "not-there-yet"),
     ("wandb/offline-run-99991231_235959-stranger/logs/debug.log", "diary")],
)  # fmt: skip
def test_a_link_that_leads_out_is_named_and_not_followed(
    stranger: Stranger, outside: Path, name: str, target: str
) -> None:
    link = stranger.folder / name
    link.parent.mkdir(exist_ok=True, parents=True)
    link.unlink(missing_ok=True)
    link.symlink_to(outside / target)
    answer = resumed(stranger)
    assert answer.code == 1 and str(link) in answer.err and "remove it" in answer.err
    assert untouched(outside)


def test_links_through_which_nothing_is_written_may_lead_out(
    stranger: Stranger, outside: Path
) -> None:
    for name in (".metrics.jsonl.partial", ".config.json.partial", ".environment.json.partial", "mlruns",
                 "config.json.partial", "wandb/run-20260101_000000-x/logs/debug-core.log",
                 "wandb/run-20260101_000000-x/files/x"):  # fmt: skip
        link = stranger.folder / name
        link.parent.mkdir(exist_ok=True, parents=True)
        link.symlink_to(outside / "diary")
    answer = resumed(stranger)
    assert answer.code == 0 and untouched(outside), answer.err


@pytest.mark.parametrize("name", ["bad_batches", "tensorboard", "wandb", "probes", "checkpoints"])
def test_a_folder_that_lies_elsewhere_is_not_written_into(
    stranger: Stranger, outside: Path, name: str
) -> None:
    link = stranger.folder / name
    if link.exists():
        shutil.copytree(link, outside.parent / name, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(link)
        link.symlink_to(outside.parent / name)
    else:
        link.symlink_to(outside)
    before = sorted(outside.parent.rglob("*"))
    assert resumed(stranger).code == 1
    assert sorted(outside.parent.rglob("*")) == before and untouched(outside)


def test_the_record_itself_may_be_no_link_out(stranger: Stranger, outside: Path) -> None:
    for name in ("metrics.jsonl", "config.json", "environment.json"):
        (stranger.folder / name).rename(outside / name)
        (stranger.folder / name).symlink_to(outside / name)
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    assert resumed(stranger).code == 1
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before


def test_links_within_the_folder_are_fine_and_the_folder_may_be_reached_by_one(
    stranger: Stranger, tmp_path: Path
) -> None:
    (stranger.folder / "wandb" / "run-1").mkdir(parents=True)
    (stranger.folder / "wandb" / "latest-run").symlink_to("run-1")
    (stranger.folder / "checkpoints" / "mine").symlink_to("../checkpoints/latest")
    (tmp_path / "short").symlink_to(stranger.folder)
    answer = chess_lab("train", "--resume", tmp_path / "short", "--total-moves", "32")
    assert answer.code == 0, answer.err


def test_a_pipe_in_the_folder_is_named_and_nobody_waits_for_it(stranger: Stranger) -> None:
    (stranger.folder / ".lock").unlink()
    os.mkfifo(stranger.folder / ".lock")
    answer = resumed(stranger)
    assert answer.code == 1 and "neither a file nor a folder" in answer.err


def test_a_hard_link_as_an_archive_may_make_one_is_named_and_a_copy_goes_on(
    stranger: Stranger, tmp_path: Path, outside: Path
) -> None:
    (stranger.folder / ".lock").unlink()
    os.link(outside / "diary", stranger.folder / ".lock")
    answer = resumed(stranger)
    assert answer.code == 1 and ".lock is a hard link" in answer.err and untouched(outside)
    shutil.copytree(stranger.folder, tmp_path / "copy", symlinks=True)
    copied = chess_lab("train", "--resume", tmp_path / "copy", "--total-moves", "32")
    assert copied.code == 0 and untouched(outside), copied.err


@pytest.mark.parametrize("cache", ["resume", "env.evaluator", "evaluator", "grpo", "env.cache"])
def test_a_word_of_the_command_line_is_no_name_that_the_user_gave(
    stranger: Stranger, cache: str
) -> None:
    stranger.says("env.cache", cache)
    answer = chess_lab("train", "grpo", "--resume", stranger.folder, "--env.evaluator", "builtin",
                       "--total-moves", "32")  # fmt: skip
    assert answer.code == 1 and f"writes env.cache '{cache}'" in answer.err
    assert not Path(cache).exists()


def test_a_new_run_does_not_begin_in_a_folder_with_a_way_out(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".lock").symlink_to(outside / "diary")
    answer = chess_lab("train", "grpo", "--smoke", "--env.evaluator", "builtin",
                       "--run-dir", tmp_path / "new")  # fmt: skip
    assert answer.code == 1 and "outside the folder" in answer.err and untouched(outside)


def test_a_page_is_written_beside_a_link_and_not_through_it(
    stranger: Stranger, outside: Path
) -> None:
    for name in (".report.html.partial", "report.html"):
        (stranger.folder / name).symlink_to(outside / "diary")
    assert chess_lab("report", stranger.folder).code == 0
    assert (stranger.folder / "report.html").read_text().startswith("<!doctype html>")
    assert not (stranger.folder / "report.html").is_symlink() and untouched(outside)


@pytest.mark.parametrize("name", [".grid.lock", "runs", "runs/grpo+none/seed-1.log", "cells.json"])
def test_a_comparison_is_not_continued_in_a_folder_with_a_way_out(
    tmp_path: Path, outside: Path, name: str
) -> None:
    link = tmp_path / "out" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside if name == "runs" else outside / "diary")
    answer = chess_lab("compare", "grpo", "--smoke", "--regularization", "none",
                       "--out", tmp_path / "out")  # fmt: skip
    assert answer.code == 1 and str(link) in answer.err and untouched(outside)


def test_labels_are_not_written_where_a_stranger_says(
    make_stranger: Callable[[Path], Stranger], pretrained: Path, outside: Path
) -> None:
    stranger = make_stranger(pretrained)
    more = ["pretrain", "--resume", stranger.folder, "--total-steps", "20"]
    shutil.rmtree(stranger.folder / "labels")
    (stranger.folder / "labels").symlink_to(outside)
    answer = chess_lab(*more)
    assert answer.code == 1 and "outside the folder" in answer.err and untouched(outside)
    (stranger.folder / "labels").unlink()
    stranger.says("labels.labels_dir", str(outside / "labels"))
    refused = chess_lab(*more)
    assert refused.code == 1 and "writes labels.labels_dir" in refused.err and untouched(outside)
    assert follow(refused).code == 0 and (outside / "labels" / "manifest.json").exists()


@pytest.mark.parametrize("label", ["../../x", "/tmp/x", "..", "x" * 20 + "\x1b[31m\n"])
def test_a_stranger_s_label_makes_one_folder_below_runs(stranger: Stranger, label: str) -> None:
    stranger.says("preset", label)
    before = {path.name for path in stranger.home.iterdir()}
    answer = chess_lab("train", "--like", stranger.folder)
    assert answer.code == 0, answer.err
    assert {path.name for path in stranger.home.iterdir()} == before | {"runs"}
    (made,) = Path("runs").iterdir()
    assert made.name.isprintable() and (made / "metrics.jsonl").exists()


def database(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("kind", ["text", "short", "database", "numbered", "folder", "pipe"])
def test_what_is_no_cache_is_left_alone_and_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "any file?#%"
    if kind in ("text", "short"):
        path.write_text(SECRET * (100 if kind == "text" else 1))
    elif kind == "database":
        database(path, "CREATE TABLE mine (a)", "INSERT INTO mine VALUES (1)")
    elif kind == "numbered":
        database(path, "PRAGMA application_id = 7", "CREATE TABLE scores (a)")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(ValueError, match="is no score cache and is left as it is"):
        make_evaluator("builtin", cache=path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert not path.is_file() or path.read_bytes() == before


def test_a_cache_is_known_by_its_first_page_from_its_first_moment(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    with make_evaluator("builtin", cache=path):
        # A process that is killed here leaves this file.
        shutil.copy(path, tmp_path / "left.sqlite")
    with make_evaluator("builtin", cache=tmp_path / "left.sqlite"):
        assert path.read_bytes()[68:72] == (tmp_path / "left.sqlite").read_bytes()[68:72] == b"CSPS"


def test_a_cache_that_a_folder_names_is_neither_made_nor_renamed(
    stranger: Stranger, outside: Path
) -> None:
    for option in ("--resume", "--like"):
        for target in ("diary", "new.sqlite"):
            stranger.says("env.cache", str(outside / target))
            refused = chess_lab("train", option, stranger.folder, "--total-moves", "32")
            assert refused.code == 1 and "writes env.cache" in refused.err and untouched(outside)
    stranger.says("env.cache", str(outside / "diary"))
    trusted = chess_lab("train", "--resume", stranger.folder, "--trust")
    assert trusted.code == 1 and "is no score cache" in trusted.err and untouched(outside)
    without = chess_lab("train", "--resume", stranger.folder, "--env.cache", "None")
    assert without.code == 0, without.err
    assert json.loads((stranger.folder / "config.json").read_text())["env"]["cache"] is None


def test_ways_out_are_found_at_any_depth(tmp_path: Path) -> None:
    deep = tmp_path.joinpath("run", *["d"] * 60)
    deep.mkdir(parents=True)
    refuse_ways_out(tmp_path / "run")
    (deep / "up").symlink_to("../" * 61)  # to what the folder lies in
    with pytest.raises(RunFolderError, match="is a symbolic link to"):
        refuse_ways_out(tmp_path / "run")


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "weights.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_nobody_waits_for_a_pipe_or_reads_a_device(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    readers: dict[str, Callable[[], object]] = {
        "config.json": lambda: read_settings(path),
        "metrics.jsonl": lambda: list(record_lines(path)),
        "weights.safetensors": lambda: read_weights(str(path)),
    }
    with pytest.raises(ValueError, match="is a pipe or a device|is no file"):
        readers[name]()
