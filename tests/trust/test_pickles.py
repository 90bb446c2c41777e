"""No file is unpickled, whatever it is called; and an archive writes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.config.files import load
from algorithms.diagnostics.probe_set import read_probe_set
from algorithms.networks.build import read_weights
from algorithms.pretraining.label_files import ShardError, ShardFolder
from algorithms.pretraining.pgn import GameCounts, read_positions
from algorithms.reports.probe_files import read_probe
from algorithms.reports.run_files import read_run
from algorithms.run_folder import checkpoint
from chess_env.evaluators import make_evaluator
from chess_env.positions.heldout import read_heldout
from chess_env.positions.start_positions import read_fens
from chess_env.positions.text_files import TextFile


class _Leaves:
    """What writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.mark), "w")


def pickled(mark: Path) -> bytes:
    """A pickle that makes the file `mark` as soon as it is read."""
    return pickle.dumps(_Leaves(mark))


def in_zip(entries: Mapping[str, bytes]) -> bytes:
    """A zip archive, packed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


def pickled_array(mark: Path) -> bytes:
    """An .npy file of Python objects, which is a pickle behind a header."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([_Leaves(mark)], object), allow_pickle=True)
    return file.getvalue()


def put_in(checkpoint: Path, name: str, data: bytes) -> None:
    """None; replaces a file of a checkpoint and makes its manifest fit."""
    (checkpoint / name).write_bytes(data)
    values = json.loads((checkpoint / "manifest.json").read_text())
    del values["sha256"]
    values["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    values["sha256"] = hashlib.sha256(_canonical(values)).hexdigest()
    (checkpoint / "manifest.json").write_bytes(_canonical(values))


def _canonical(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"


ARRAYS = ("positions", "offsets", "child_score_cp", "played", "kinds", "legal_ids", "logprobs",
          "update", "temperature", "set_sha256", "slice_of", "slice_names", "evaluator_id", "sha256")  # fmt: skip
CONTENTS: dict[str, Callable[[Path], bytes]] = {
    "a pickle": pickled,
    "a pickle as torch.save packs it": lambda mark: in_zip(
        {"archive/data.pkl": pickled(mark), "archive/version": b"3\n"}
    ),
    "an array of objects": pickled_array,
    "arrays of objects": lambda mark: in_zip(
        {f"{name}.npy": pickled_array(mark) for name in ARRAYS}
    ),
}


def shard(path: Path) -> object:
    """The first shard of labels, which is the file."""
    entry = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "positions": 1}
    path.rename(path.parent / "shard-00000.npz")
    values = {"format": 1, "identity": {}, "notes": {}, "shards": {"0": entry}}
    (path.parent / "manifest.json").write_text(json.dumps(values))
    return ShardFolder(path.parent, {}).read(0)


def games(path: Path) -> object:
    file = TextFile(path, "games")
    found = list(read_positions(file, min_rating=0, skip_plies=0, counts=GameCounts()))
    if not any(len(positions) for positions, _ in found):
        raise ValueError("no usable position")
    return found


READERS: dict[str, Callable[[Path], object]] = {
    **{f"weights{end}": lambda path: read_weights(str(path))
       for end in (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".pkl", ".zip", "")},
    "00000000.npz": read_probe,
    "labels.npz": shard,
    "heldout.npz": read_heldout,
    "probes.npz": read_probe_set,
    "scores.sqlite": lambda path: make_evaluator("builtin", cache=path),
    "games.pgn": games,
    "games.pgn.zst": games,
    "fens.txt": read_fens,
    "config.json": load,
    "metrics.jsonl": lambda path: read_run(path.parent),
}  # fmt: skip


def test_the_pickle_would_leave_its_mark(tmp_path: Path) -> None:
    pickle.loads(pickled(tmp_path / "mark"))
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("content", CONTENTS)
def test_no_file_is_unpickled_whatever_it_is_called(
    tmp_path: Path, name: str, content: str
) -> None:
    folder, mark = tmp_path / "folder", tmp_path / "mark"
    folder.mkdir()
    (folder / name).write_bytes(CONTENTS[content](mark))
    with pytest.raises((ValueError, ShardError)):
        READERS[name](folder / name)
    assert not mark.exists()


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", checkpoint.FILES)
def test_no_file_of_a_checkpoint_is_unpickled_though_its_manifest_fits(
    run_dir: Path, tmp_path: Path, name: str, content: str
) -> None:
    path, mark = tmp_path / "checkpoint", tmp_path / "mark"
    shutil.copytree(checkpoint.directories(run_dir / "checkpoints")[-1], path)
    put_in(path, name, CONTENTS[content](mark))
    with pytest.raises(checkpoint.CheckpointError, match="not written by this program"):
        checkpoint.load(path)
    assert not mark.exists()


def test_names_in_an_archive_lead_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "00000000.npz"
    path.write_bytes(in_zip({"../../out.npy": b"x", str(tmp_path / "out.npy"): b"x"}))
    for reader in (read_probe, read_heldout, read_probe_set):
        with pytest.raises(ValueError, match="has no|cannot be read"):
            reader(path)
    assert list(tmp_path.rglob("*")) == [folder, path]
