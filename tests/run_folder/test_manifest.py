"""A manifest that fits itself and lies, or is damaged, is refused in a short message."""

from __future__ import annotations

from pathlib import Path

import pytest

from algorithms.run_folder import checkpoint
from algorithms.run_folder.checkpoint import CheckpointError, load, manifest, save


def _save(folder: Path, update: int) -> Path:
    return save(folder, update, weights={}, state={}, best=False)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"format": "f" * 5000},
        {"format": 2},
        {"format": 2, "files": []},
        {"format": 2, "files": {"model.safetensors": None}},
        {"format": 2, "files": {"model.safetensors": {"bytes": "3", "sha256": "0"}}},
        {"format": 2, "files": {"model.safetensors": {"bytes": 10**600, "sha256": "0"}}},
    ],
)
def test_a_manifest_that_fits_itself_and_says_nothing_of_the_files_is_refused(
    tmp_path: Path, values: dict[str, object]
) -> None:
    path = _save(tmp_path, 1)
    (path / "manifest.json").write_bytes(manifest.closed(values))
    with pytest.raises(CheckpointError) as refused:
        load(path)
    assert len(str(refused.value).replace(str(path), "")) < 400


def test_of_a_damaged_manifest_a_message_repeats_a_little(tmp_path: Path) -> None:
    path = _save(tmp_path, 1)
    (path / "manifest.json").write_bytes(b"x" * 60_000 + b"\xff")
    with pytest.raises(CheckpointError, match="is damaged") as refused:
        load(path)
    assert len(str(refused.value).replace(str(path), "")) < 400


@pytest.mark.parametrize("state", [b"[]", b"3", b'{"$tuple": []}', b"{" + b" " * 900 + b"}"])
def test_a_state_that_is_no_object_was_not_written_by_this_program(
    tmp_path: Path, state: bytes
) -> None:
    path = _save(tmp_path, 1)
    contents = {name: (path / name).read_bytes() for name in checkpoint.FILES} | {
        "state.json": state
    }
    (path / "state.json").write_bytes(state)
    (path / "manifest.json").write_bytes(manifest.manifest(contents, update=1, best=False))
    with pytest.raises(CheckpointError, match="was not written by this program"):
        load(path)
