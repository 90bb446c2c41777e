"""Checkpoints: weights, optimizer, generators and boards in one directory that is whole or absent.

    checkpoints/update-00000040/{model.safetensors, trainer.safetensors, state.json, manifest.json}
    checkpoints/latest -> update-00000040        checkpoints/best -> update-00000035

Tensors and arrays are safetensors, everything else is JSON: opening a checkpoint never runs code from it. The manifest
holds the SHA-256 of every file, and is checked before anything is parsed. A directory is written under a temporary
name, flushed to disk and renamed, so a kill at any instant leaves the previous ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from algorithms.run_folder.files import PARTIAL, flush_directory, point, remove_whole, write_flushed
from algorithms.run_folder.reading import cut, parse_json, read_file

FORMAT = 2
FILES = ("model.safetensors", "trainer.safetensors", "state.json")
KEEP = 2  # newest checkpoints kept beside the best one: the fall-back where the newest is damaged
MOST_BYTES = 2**31  # of a file of tensors: half a billion numbers
_MOST_STATE_BYTES, _MOST_MANIFEST_BYTES = 8 * 2**20, 2**16
_ENTRY = {"bytes": int, "sha256": str}  # of a manifest
_NAME = re.compile(r"update-(\d{8,})")


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read; the message names the file and the remedy."""


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
    skeleton = _pack(state, tensors)
    contents = {
        "model.safetensors": save_tensors({k: _plain(v) for k, v in weights.items()}),
        "trainer.safetensors": save_tensors(tensors),
        "state.json": json.dumps(skeleton, indent=1).encode(),
    }
    contents["manifest.json"] = _manifest(update, contents, best)
    target = folder / f"update-{update:08d}"
    partial = folder / f"{PARTIAL}{update:08d}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        partial.mkdir()
        for name, data in contents.items():
            write_flushed(partial / name, data)
        flush_directory(partial)
        if target.exists():  # left by a run that was killed after it, with the same content
            remove_whole(target)
        os.replace(partial, target)
        _point_to(target, best)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
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
    newest = folder / f"update-{update:08d}"
    try:
        _sweep(folder)
        _point_to(newest, _read_manifest(newest).get("best", False))  # older versions left it out
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
        weights = load_tensors(data["model.safetensors"])
        state = _unpack(parse_json(data["state.json"]), load_tensors(data["trainer.safetensors"]))
        if not isinstance(state, dict):
            raise ValueError(f"its state is a {type(state).__name__}")
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} matches its manifest but was not written by this program ({cut(error)})"
        ) from error
    return Checkpoint(path, weights, state)


def read_verified(file: Path) -> bytes:
    """What a file of `FILES` holds, which is what the manifest beside it says.

    Raises:
        CheckpointError: it or its manifest is missing, cut, altered or of a newer format.
    """
    expected = _entry(file)
    try:
        size, written = file.stat().st_size, expected["bytes"]
        if size != written:
            raise _unusable(file, f"is damaged: {size:,} bytes, {cut(f'{written:,}')} were written")
        data = read_file(file, MOST_BYTES if file.suffix == ".safetensors" else _MOST_STATE_BYTES)
    except OSError as error:
        raise _unusable(file, f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise CheckpointError(f"{error}; use another checkpoint") from error
    if hashlib.sha256(data).hexdigest() != expected["sha256"]:
        raise _unusable(file, "is damaged: its SHA-256 differs from the manifest")
    return data


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
    found = [p for p in folder.iterdir() if _NAME.fullmatch(p.name)] if folder.is_dir() else []
    return sorted(found, key=_number)


def _prune(folder: Path, update: int) -> None:
    """Removes old checkpoints, and newer ones: those were passed over as damaged on resume."""
    best = (folder / "best").resolve()
    newer = [p for p in checkpoints(folder) if _number(p) > update]
    older = [p for p in checkpoints(folder) if _number(p) <= update][:-KEEP]
    for path in newer + [p for p in older if p.resolve() != best]:
        remove_whole(path)


def _number(path: Path) -> int:
    return int(path.name.removeprefix("update-"))


def _sweep(folder: Path) -> None:
    """Removes what killed processes left half-written; a run has one writer (see `RunLog`)."""
    for path in folder.glob(f"{PARTIAL}*"):
        (Path.unlink if path.is_symlink() else shutil.rmtree)(path)


def _canonical(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"


def _manifest(update: int, contents: dict[str, bytes], best: bool) -> bytes:
    files = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in contents.items()
    }
    return _closed({"format": FORMAT, "update": update, "best": best, "files": files})


def _closed(values: dict[str, Any]) -> bytes:
    return _canonical({**values, "sha256": hashlib.sha256(_canonical(values)).hexdigest()})


def _unusable(file: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{file} {why}; use another checkpoint")


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest, whose bytes must be exactly those that its content gives."""
    file = path / "manifest.json"
    try:
        raw = read_file(file, _MOST_MANIFEST_BYTES)
        values = parse_json(raw)
        del values["sha256"]
    except OSError as error:
        raise _unusable(file, f"cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _unusable(file, f"is damaged ({cut(repr(error))})") from error
    if raw != _closed(values):
        raise _unusable(file, "is damaged: its own SHA-256 differs")
    if values.get("format") != FORMAT:
        raise CheckpointError(
            f"{file} has format {cut(values.get('format'))}, this version reads {FORMAT}: "
            "open it with the version of the project that wrote it"
        )
    return dict(values)


def _entry(file: Path) -> dict[str, Any]:
    files = _read_manifest(file.parent).get("files")
    entry = files.get(file.name) if isinstance(files, dict) else None
    if not isinstance(entry, dict) or {k: type(v) for k, v in entry.items()} != _ENTRY:
        raise _unusable(file.with_name("manifest.json"), f"does not say what {file.name} holds")
    return entry


def _plain(tensor: Tensor) -> Tensor:
    # A clone, because safetensors refuses tensors that share memory.
    return tensor.detach().cpu().contiguous().clone()


def _pack(value: Any, tensors: dict[str, Tensor], where: str = "") -> Any:
    """JSON skeleton of nested values; tensors and arrays move to `tensors` under their path."""
    if isinstance(value, Tensor | np.ndarray):
        if isinstance(value, np.ndarray) and value.dtype.kind not in "biuf":
            raise TypeError(f"checkpoint state {where!r} has dtype {value.dtype}: store numbers")
        if isinstance(value, Tensor):
            tensors[where] = _plain(value)
            return {"$tensor": where}
        # The reshape gives back the shape of a 0-d array, which ascontiguousarray makes 1-d.
        tensors[where] = torch.from_numpy(np.ascontiguousarray(value)).reshape(value.shape).clone()
        return {"$array": where}
    if isinstance(value, dict):
        items = [[k, _pack(v, tensors, f"{where}/{k}")] for k, v in value.items()]
        return {"$dict": items}
    if isinstance(value, list | tuple):
        packed = [_pack(v, tensors, f"{where}/{i}") for i, v in enumerate(value)]
        return {"$tuple": packed} if isinstance(value, tuple) else packed
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"checkpoint state {where!r} is a {type(value).__name__}: store plain values")


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "$dict":
        return {k: _unpack(v, tensors) for k, v in content}
    if kind == "$tuple":
        return tuple(_unpack(v, tensors) for v in content)
    tensor = tensors[content]
    return tensor.numpy() if kind == "$array" else tensor
