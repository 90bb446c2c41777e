"""Checkpoints: weights, optimizer, generators and boards, from which a run goes on.

checkpoints/update-00000040/{model.safetensors, trainer.safetensors, state.json, manifest.json}
checkpoints/latest -> update-00000040        checkpoints/best -> update-00000035
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from algorithms.run_folder.checkpoint.manifest import (
    WEIGHTS_FILE,
    CheckpointError,
    directories,
    directory_of,
    foreign,
    read_manifest,
    read_verified,
    sweep,
    update_of,
    write_directory,
)
from algorithms.run_folder.checkpoint.packing import pack, plain, unpack
from algorithms.run_folder.files import flush_directory, point, remove_whole
from algorithms.run_folder.reading import parse_json

FILES = (WEIGHTS_FILE, "trainer.safetensors", "state.json")
KEEP = 2  # newest checkpoints kept beside the best one: the fall-back where the newest is damaged


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds.

    Attributes:
        path: its directory.
        weights: the policy's state_dict, on the CPU.
        state: the nested values given to `save`, with their tensors and arrays.
    """

    path: Path
    weights: dict[str, Tensor]
    state: dict[str, Any]


def save(
    folder: Path, update: int, *, weights: dict[str, Tensor], state: dict[str, Any], best: bool
) -> Path:
    """Path of the checkpoint written for `update`; `latest` (and `best`) then point to it.

    Args:
        folder: the run's `checkpoints` folder; made where missing.
        update: number of updates done.
        weights: the policy's state_dict.
        state: nested dict, list or tuple of tensors, numpy arrays and JSON values.
        best: whether this is the lowest regret so far.

    Raises:
        CheckpointError: it could not be written; every earlier checkpoint is as it was.
    """
    tensors: dict[str, Tensor] = {}
    skeleton = pack(state, tensors)
    contents = {
        WEIGHTS_FILE: save_tensors({k: plain(v) for k, v in weights.items()}),
        "trainer.safetensors": save_tensors(tensors),
        "state.json": json.dumps(skeleton, indent=1).encode(),
    }
    target = directory_of(folder, update)
    try:
        write_directory(target, contents, {"update": update, "best": best})
        _point_to(target, best)
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {target} could not be written ({error.strerror or error}); it needs "
            f"{sum(map(len, contents.values())):,} bytes in {folder}. Earlier checkpoints are intact: free space there"
        ) from error
    _prune(folder, update)
    return target


def settle(folder: Path, update: int) -> None:
    """Does what a kill just after the checkpoint of `update` left undone: links, and old checkpoints removed.

    Raises:
        CheckpointError: a link cannot be made.
    """
    newest = directory_of(folder, update)
    try:
        sweep(folder)
        _point_to(newest, read_manifest(newest).get("best", False))  # older versions left it out
    except OSError as error:
        raise CheckpointError(f"no link to {newest} can be made ({error.strerror})") from error
    _prune(folder, update)


def _point_to(target: Path, best: bool) -> None:
    point(target.with_name("latest"), target.name)
    if best:
        point(target.with_name("best"), target.name)
    flush_directory(target.parent)


def load(path: Path) -> Checkpoint:
    """The checkpoint in the directory `path`, every byte of it verified.

    Raises:
        CheckpointError: a file is missing, cut, altered or of a newer format; the message names it.
    """
    data = {name: read_verified(path / name) for name in FILES}
    try:
        weights = load_tensors(data[WEIGHTS_FILE])
        state = unpack(parse_json(data["state.json"]), load_tensors(data["trainer.safetensors"]))
        if not isinstance(state, dict):
            raise ValueError(f"its state is a {type(state).__name__}")
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise foreign(path, error) from error
    return Checkpoint(path, weights, state)


def load_newest(folder: Path) -> Checkpoint:
    """The newest intact checkpoint of a run; warns about each damaged one passed over.

    Raises:
        CheckpointError: there is none.
    """
    paths = checkpoints(folder)
    for path in reversed(paths):
        try:
            return load(path)
        except CheckpointError as error:
            warnings.warn(f"falling back to the previous checkpoint: {error}", stacklevel=2)
    found = f"all {len(paths)} are damaged" if paths else "it holds none"
    remedy = "start a new run in another --run-dir, or delete this one"
    raise CheckpointError(f"no intact checkpoint in {folder}: {found}; {remedy}")


def checkpoints(folder: Path) -> list[Path]:
    """Directories of the run's checkpoints, oldest first; unfinished ones left out."""
    return directories(folder)


def _prune(folder: Path, update: int) -> None:
    """Removes old checkpoints, and newer ones: those were passed over as damaged on resume."""
    best = (folder / "best").resolve()
    newer = [p for p in checkpoints(folder) if update_of(p) > update]
    older = [p for p in checkpoints(folder) if update_of(p) <= update][:-KEEP]
    for path in newer + [p for p in older if p.resolve() != best]:
        remove_whole(path)
