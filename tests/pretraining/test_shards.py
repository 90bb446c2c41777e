"""Labels on disk are the bytes that were written, or they are not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from algorithms.pretraining.label_files import MANIFEST, LabelledPositions, ShardError, ShardFolder
from chess_env.rules.fen import parse_fen

IDENTITY = {"kind": "evaluator", "evaluator": "x", "walk_plies": 3, "share": 0.25}


def shard(count: int = 3) -> LabelledPositions:
    position = parse_fen("7k/P7/8/8/8/8/8/7K w - - 0 1")
    return LabelledPositions(
        positions=np.repeat(position[None], count, axis=0),
        offsets=np.arange(count + 1, dtype=np.int32) * 7,
        child_score_cp=np.arange(7 * count, dtype=np.int16),
        played=np.full(count, -1, np.int16),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with shards 0 and 1."""
    written = ShardFolder(tmp_path / "labels", IDENTITY)
    written.write(0, shard(3))
    written.write(1, shard(2))
    return tmp_path / "labels"


def test_what_was_written_is_read_and_counted(folder: Path) -> None:
    found = ShardFolder(folder, IDENTITY)
    assert found.sizes() == [3, 2]
    assert [found.state(k) for k in range(3)] == ["intact", "intact", "absent"]
    read = found.read(0)
    assert all((vars(read)[name] == values).all() for name, values in vars(shard(3)).items())
    assert (len(read), read.num_labels) == (3, 21)


def test_the_same_content_is_the_same_bytes(folder: Path) -> None:
    assert (folder / "shard-00000.npz").read_bytes() == shard(3).to_bytes()


@pytest.mark.parametrize("at", [0, 200, -1])
def test_a_flipped_bit_is_noticed(folder: Path, at: int) -> None:
    file = folder / "shard-00001.npz"
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    found = ShardFolder(folder, IDENTITY)
    assert found.state(1) == "damaged"
    with pytest.raises(ShardError, match="shard-00001.npz is damaged: start again"):
        found.read(1)


def test_a_shard_cut_or_gone_is_damaged_and_one_without_an_entry_is_not_made(folder: Path) -> None:
    file = folder / "shard-00001.npz"
    file.write_bytes(file.read_bytes()[:-5])
    (folder / "shard-00002.npz").write_bytes(shard().to_bytes())
    (folder / "shard-00000.npz").unlink()
    found = ShardFolder(folder, IDENTITY)
    assert [found.state(k) for k in range(3)] == ["damaged", "damaged", "absent"]


def test_labels_made_from_something_else_are_refused_and_the_difference_is_said(
    folder: Path,
) -> None:
    with pytest.raises(ShardError, match="walk_plies 3, wanted 4"):
        ShardFolder(folder, IDENTITY | {"walk_plies": 4})


def test_a_damaged_manifest_or_none_is_refused(folder: Path) -> None:
    manifest = folder / MANIFEST
    text = manifest.read_text()
    for damaged in (text[:-20], "[]", "null", text.replace('"format": 1', '"format": 9')):
        manifest.write_text(damaged)
        with pytest.raises(ShardError, match="delete the folder"):
            ShardFolder(folder, IDENTITY)
    manifest.unlink()
    with pytest.raises(ShardError, match="holds shards and no manifest"):
        ShardFolder(folder, IDENTITY)


def test_a_file_that_is_no_shard_is_refused_even_where_the_manifest_names_it(folder: Path) -> None:
    found = ShardFolder(folder, IDENTITY)
    broken = shard(2)
    broken.offsets[-1] += 1
    found.write(1, broken)
    with pytest.raises(ShardError, match="inconsistent"):
        found.read(1)
