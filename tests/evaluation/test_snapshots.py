"""The policies of a run are found, loaded lazily, aligned with another run's, and followed while it trains."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.snapshot_policies import (
    RunFollower,
    SnapshotPolicies,
    aligned,
    last_at,
    snapshots,
)
from algorithms.run_folder import checkpoint
from algorithms.training.trainer import train
from tests.training.runs import Watcher, tiny

MOVES = [0, 128, 256]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four updates, with snapshots of the first, the second and the last."""
    run_dir = tmp_path_factory.mktemp("runs") / "kept"
    train(tiny(run_dir, checkpoint_keep=3), display=Watcher())
    return run_dir


@pytest.fixture
def run_dir(kept: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoiled."""
    return Path(shutil.copytree(kept, tmp_path / "run", symlinks=True))


def test_they_come_in_the_order_of_training_and_once_for_each_update(kept: Path) -> None:
    found = snapshots(kept)
    on_disk = {path.resolve().name for path in (kept / "checkpoints").glob("update-*")}
    updates = sorted({0, 2, 4} | {int(name[-8:]) for name in on_disk})
    assert [each.update for each in found.every] == updates
    assert found.scored_moves == [64 * update for update in updates]
    assert found.notes == ()
    assert [each.path.parent.name for each in found.every if each.update in (0, 2, 4)] == [
        "snapshots"
    ] * 3


def test_a_run_without_snapshots_has_its_checkpoints(run_dir: Path) -> None:
    shutil.rmtree(run_dir / "snapshots")
    found = snapshots(run_dir)
    assert found.every[-1].update == 4 and found.every[-1].path.parent.name == "checkpoints"
    assert found.every[-1].scored_moves == 256


def test_each_policy_is_that_of_its_weights(kept: Path) -> None:
    policies = SnapshotPolicies()
    for each in snapshots(kept).every:
        own = policies(each).state_dict()
        read = checkpoint.load_weights(each.path)
        assert own.keys() == read.keys()
        assert all(torch.equal(own[name], read[name]) for name in own)
    newest = load_policy(str(kept)).state_dict()
    assert all(torch.equal(own[name], newest[name]) for name in own)


def test_those_asked_for_last_are_kept_within_the_bytes_given(kept: Path) -> None:
    first, second, *_ = snapshots(kept).every
    size = sum(tensor.nbytes for tensor in checkpoint.load_weights(first.path).values())
    policies = SnapshotPolicies(most_bytes=2 * size)
    loaded = policies(first)
    assert policies(first) is loaded
    policies(second)
    assert policies(first) is loaded and policies.bytes_kept == 2 * size
    policies(snapshots(kept).every[-1])  # puts out the second
    assert policies(first) is loaded and policies.bytes_kept == 2 * size
    small = SnapshotPolicies(most_bytes=1)
    assert small(first) is small(first)


def test_damaged_and_foreign_ones_are_left_out_with_a_sentence(run_dir: Path) -> None:
    folder = run_dir / "snapshots"
    shutil.rmtree(run_dir / "checkpoints")
    (folder / "update-00000000" / "manifest.json").write_bytes(b"{}")
    (folder / "update-00000002").rename(folder / "update-00000003")
    (folder / "partial-00000009-1").mkdir()
    (folder / "update-00000007").symlink_to(folder / "update-00000004")
    found = snapshots(run_dir)
    assert [each.update for each in found.every] == [4]
    said = "\n".join(found.notes)
    assert len(found.notes) == 4
    for part in ("update-00000000/manifest.json is damaged", "update-00000003 is left out",
                 "1 being written or removed", "update-00000007 is a symbolic link"):  # fmt: skip
        assert part in said, said


def test_another_version_says_which(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(run_dir / "checkpoints")
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    with pytest.raises(ValueError, match="holds no policy that can be read.*this version reads 99"):
        snapshots(run_dir)


def test_damaged_weights_are_named_when_they_are_asked_for(run_dir: Path) -> None:
    last = snapshots(run_dir).every[-1]
    (last.path / "model.safetensors").write_bytes(b"short")
    with pytest.raises(ValueError, match=r"update-00000004/model\.safetensors is damaged"):
        SnapshotPolicies()(last)
    shutil.rmtree(last.path)
    with pytest.raises(ValueError, match="update-00000004"):
        SnapshotPolicies()(last)


def test_a_folder_without_a_policy_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no folder"):
        snapshots(tmp_path / "none")
    with pytest.raises(ValueError, match="It has no checkpoint yet: let the run go on"):
        snapshots(tmp_path)


def test_a_checkpoint_whose_row_is_missing_is_left_out(run_dir: Path) -> None:
    lines = (run_dir / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run_dir / "metrics.jsonl").write_text("".join(lines[:4]))  # updates 0 to 3
    shutil.rmtree(run_dir / "snapshots")
    found = snapshots(run_dir)
    assert 4 not in [each.update for each in found.every]
    assert any("has no row of update 4" in note for note in found.notes)


def test_of_a_run_whose_record_is_damaged_the_snapshots_are_there_still(run_dir: Path) -> None:
    (run_dir / "metrics.jsonl").write_text("not json\n")
    found = snapshots(run_dir)
    assert [each.update for each in found.every] == [0, 2, 4]
    assert "metrics.jsonl, line 1 is damaged" in found.notes[0]


def test_the_last_policy_at_or_before_a_cursor() -> None:
    assert [last_at(MOVES, at) for at in (-1, 0, 127, 128, 200, 256, 999)] == [
        None, 0, 0, 1, 1, 2, 2,
    ]  # fmt: skip
    assert last_at([], 5) is None
    assert aligned(MOVES, [100, 256]) == [
        (0, (0, None)),
        (100, (0, 0)),
        (128, (1, 0)),
        (256, (2, 1)),
    ]


@given(st.lists(st.integers(0, 50), unique=True).map(sorted), st.integers(-5, 60))
def test_no_policy_between_the_place_and_the_cursor_is_passed_over(
    moves: list[int], cursor: int
) -> None:
    place = last_at(moves, cursor)
    before = [at for at in moves if at <= cursor]
    assert (moves[place] == before[-1]) if place is not None else not before


def test_a_run_is_followed_row_by_row_as_it_is_written(kept: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "live"
    follower = RunFollower(run_dir)
    assert not follower.look()  # not begun yet
    run_dir.mkdir()
    lines = (kept / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    record = run_dir / "metrics.jsonl"
    record.write_bytes(lines[0] + lines[1][:40])
    news = follower.look()
    assert [row["step"] for row in news.rows] == [0] and not news.anew
    shutil.copytree(kept / "snapshots", run_dir / "snapshots")
    assert [each.update for each in follower.look().snapshots] == [0, 2, 4]
    assert not follower.look()
    record.write_bytes(b"".join(lines))
    news = follower.look()
    assert [row["step"] for row in news.rows] == [1, 2, 3, 4] and news.snapshots == ()
    shutil.rmtree(run_dir / "snapshots" / "update-00000004")
    assert [each.update for each in follower.look().gone] == [4]
    assert follower.present.scored_moves == [0, 128]


def test_each_row_of_a_training_run_is_seen_once_and_each_snapshot_before_the_next_row(
    tmp_path: Path,
) -> None:
    follower, rows, updates = RunFollower(tmp_path), list[float | None](), list[int]()

    def look(row: object) -> None:
        news = follower.look()
        rows.extend(each["step"] for each in news.rows)
        updates.extend(each.update for each in news.snapshots)
        assert news.notes == ()

    train(tiny(tmp_path, checkpoint_keep="all"), display=Watcher(look))
    assert rows == [0, 1, 2, 3, 4] and updates == [0, 1, 2, 3]
    assert [each.update for each in follower.look().snapshots] == [4]


def test_a_run_that_goes_on_from_its_checkpoint_is_read_anew(run_dir: Path) -> None:
    follower = RunFollower(run_dir)
    assert len(follower.look().rows) == 5
    train(tiny(run_dir, updates=5, checkpoint_keep=3), resume=True, display=Watcher())
    news = follower.look()
    assert news.anew and [row["step"] for row in news.rows] == [0, 1, 2, 3, 4, 5]
    assert follower.present.every[-1].update == 5


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (b"not json\n", "line 1 is damaged"),
        (b'{"step": 3, "crc32": "0"}\n', "expected a whole number above 4"),
        (b'{"step": 9, "a": [1]}\n', "expected a number or null"),
        (b"\xff\n", "no UTF-8"),
    ],
)
def test_a_damaged_row_becomes_a_note_and_the_policies_are_there_still(
    run_dir: Path, spoil: bytes, said: str
) -> None:
    follower = RunFollower(run_dir)
    follower.look()
    with (run_dir / "metrics.jsonl").open("ab") as file:
        file.write(spoil)
    for _ in range(2):
        news = follower.look()
        assert not news and any(said in note for note in news.notes), news.notes
    assert follower.present.every[-1].update == 4


def test_no_link_and_no_pipe_is_read(run_dir: Path) -> None:
    record = run_dir / "metrics.jsonl"
    record.rename(run_dir / "elsewhere")
    record.symlink_to(run_dir / "elsewhere")
    assert any("symbolic link" in note for note in RunFollower(run_dir).look().notes)
    record.unlink()
    os.mkfifo(record)
    assert any("pipe" in note for note in RunFollower(run_dir).look().notes)
