"""Checkpoints: weights, optimizer, generators and boards, from which a run goes on.

    checkpoints/update-00000040/{model.safetensors, trainer.safetensors, state.json, manifest.json}
    checkpoints/latest -> update-00000040        checkpoints/best -> update-00000035

Tensors and arrays are safetensors, everything else is JSON: opening one never runs code from it. The manifest holds
the SHA-256 of every file, and is checked before anything is parsed. A directory is written under a temporary name,
flushed to disk and renamed, so a kill at any instant leaves the previous ones. Snapshots (`snapshots.py`) are such
directories of weights alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from algorithms.run_folder.atomic_files import (
    CONFIG_FILE,
    METRICS_FILE,
    PARTIAL,
    cut,
    flush_directory,
    load_json,
    parse_json,
    point,
    read_file,
    remove_whole,
    settings_intact,
    write_flushed,
)
from algorithms.run_folder.run_log import record_lines, rows_of

FORMAT = 2
WEIGHTS_FILE = "model.safetensors"
MANIFEST_FILE = "manifest.json"
_ENTRY = {"bytes": int, "sha256": str}  # of a manifest
_NAME = re.compile(r"update-(\d{8,})")
FILES = (WEIGHTS_FILE, "trainer.safetensors", "state.json")
KEEP = 2  # newest checkpoints kept beside the best one: the fall-back where the newest is damaged


class CheckpointError(RuntimeError):
    """A checkpoint or snapshot cannot be written or read; the message names the file and the remedy."""


def directory_of(folder: Path, update: int) -> Path:
    """Where the directory of an update lies."""
    return folder / f"update-{update:08d}"


def update_of(path: Path) -> int:
    """The update in the name of a directory of `directories`."""
    return int(path.name.removeprefix("update-"))


def directories(folder: Path) -> list[Path]:
    """The directories of a folder, by update; unfinished ones left out."""
    found = [p for p in folder.iterdir() if _NAME.fullmatch(p.name)] if folder.is_dir() else []
    return sorted(found, key=update_of)


def write_directory(target: Path, contents: Mapping[str, bytes], about: Mapping[str, Any]) -> None:
    """Writes a directory and its manifest, whole or not at all.

    Args:
        target: of `directory_of`; its folder is made where missing, and what kills left half-written there is removed.
        contents: of each file, by name.
        about: what the manifest says beside the sizes and checksums.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    folder, number = target.parent, target.name.removeprefix("update-")
    partial = folder / f"{PARTIAL}{number}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        partial.mkdir()
        for name, data in {**contents, MANIFEST_FILE: manifest(contents, **about)}.items():
            write_flushed(partial / name, data)
        flush_directory(partial)
        if target.exists():  # left by a run that was killed after it, with the same content
            remove_whole(target)
        os.replace(partial, target)
        flush_directory(folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def sweep(folder: Path) -> None:
    """Removes what killed processes left half-written; a run has one writer (see `RunLog`)."""
    for path in folder.glob(f"{PARTIAL}*"):
        (Path.unlink if path.is_symlink() else shutil.rmtree)(path)


def manifest(contents: Mapping[str, bytes], **about: Any) -> bytes:
    """The manifest of files: `about`, and the size and SHA-256 of each."""
    files = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in contents.items()
    }
    return closed({"format": FORMAT, **about, "files": files})


def closed(values: Mapping[str, Any]) -> bytes:
    """A manifest with its own checksum."""
    return _canonical({**values, "sha256": hashlib.sha256(_canonical(values)).hexdigest()})


def _canonical(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a checkpoint or snapshot, each in the shape of its parameter, on the CPU.

    Nothing else of it is read.

    Raises:
        CheckpointError: they or the manifest are missing, cut, altered or of a newer format.
    """
    try:
        return load_tensors(read_verified(path / WEIGHTS_FILE))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise foreign(path, error) from error


def foreign(path: Path, error: Exception) -> CheckpointError:
    """The error of a directory that fits its manifest and cannot be parsed."""
    return CheckpointError(
        f"{path} matches its manifest but was not written by this program ({cut(error)})"
    )


def read_verified(file: Path) -> bytes:
    """What a file holds, which is what the manifest beside it says.

    Raises:
        CheckpointError: it or its manifest is missing, cut, altered or of a newer format.
    """
    expected = entry(read_manifest(file.parent), file)
    try:
        size, written = file.stat().st_size, expected["bytes"]
        if size != written:
            raise _unusable(file, f"is damaged: {size:,} bytes, {written:,} were written")
        data = read_file(file)
    except OSError as error:
        raise _unusable(file, f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise CheckpointError(f"{error}; use another checkpoint") from error
    if hashlib.sha256(data).hexdigest() != expected["sha256"]:
        raise _unusable(file, "is damaged: its SHA-256 differs from the manifest")
    return data


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a directory, whose bytes must be exactly those that its content gives.

    Raises:
        CheckpointError: it is missing, damaged or of another format.
    """
    file = path / MANIFEST_FILE
    try:
        raw = read_file(file)
        values = parse_json(raw)
        del values["sha256"]
    except OSError as error:
        raise _unusable(file, f"cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _unusable(file, f"is damaged ({cut(repr(error))})") from error
    if raw != closed(values):
        raise _unusable(file, "is damaged: its own SHA-256 differs")
    if values.get("format") != FORMAT:
        raise CheckpointError(
            f"{file} has format {cut(values.get('format'))}, this version reads {FORMAT}: "
            "open it with the version of the project that wrote it"
        )
    return dict(values)


def entry(values: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The `bytes` and `sha256` of a file by the values of the manifest beside it.

    Raises:
        CheckpointError: the manifest does not say them.
    """
    files = values.get("files")
    found = files.get(file.name) if isinstance(files, dict) else None
    if not isinstance(found, dict) or {k: type(v) for k, v in found.items()} != _ENTRY:
        raise _unusable(file.with_name(MANIFEST_FILE), f"does not say what {file.name} holds")
    return found


def _unusable(file: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{file} {why}; use another checkpoint")


def plain(tensor: Tensor) -> Tensor:
    """The tensor on the CPU, of the same shape, in memory of its own: safetensors refuses what shares memory."""
    return tensor.detach().cpu().contiguous().clone()


def pack(value: Any, tensors: dict[str, Tensor], where: str = "") -> Any:
    """JSON skeleton of nested values; tensors and arrays move to `tensors` under their path.

    Raises:
        TypeError: a value is no number, text, tensor or array; the message names its path.
    """
    if isinstance(value, Tensor | np.ndarray):
        if isinstance(value, np.ndarray) and value.dtype.kind not in "biuf":
            raise TypeError(f"checkpoint state {where!r} has dtype {value.dtype}: store numbers")
        if isinstance(value, Tensor):
            tensors[where] = plain(value)
            return {"$tensor": where}
        # The reshape gives back the shape of a 0-d array, which ascontiguousarray makes 1-d.
        tensors[where] = torch.from_numpy(np.ascontiguousarray(value)).reshape(value.shape).clone()
        return {"$array": where}
    if isinstance(value, dict):
        items = [[k, pack(v, tensors, f"{where}/{k}")] for k, v in value.items()]
        return {"$dict": items}
    if isinstance(value, list | tuple):
        packed = [pack(v, tensors, f"{where}/{i}") for i, v in enumerate(value)]
        return {"$tuple": packed} if isinstance(value, tuple) else packed
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"checkpoint state {where!r} is a {type(value).__name__}: store plain values")


def unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The nested values that `pack` took apart.

    Raises:
        ValueError, KeyError, TypeError: it is no skeleton of `pack`, or a tensor is missing.
    """
    if isinstance(value, list):
        return [unpack(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "$dict":
        return {k: unpack(v, tensors) for k, v in content}
    if kind == "$tuple":
        return tuple(unpack(v, tensors) for v in content)
    tensor = tensors[content]
    return tensor.numpy() if kind == "$array" else tensor


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
        "state.json": json.dumps(skeleton).encode(),  # indented it takes ten times as long
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
    paths = directories(folder)
    for path in reversed(paths):
        try:
            return load(path)
        except CheckpointError as error:
            warnings.warn(f"falling back to the previous checkpoint: {error}", stacklevel=2)
    found = f"all {len(paths)} are damaged" if paths else "it holds none"
    remedy = "start a new run in another --run-dir, or delete this one"
    raise CheckpointError(f"no intact checkpoint in {folder}: {found}; {remedy}")


def _prune(folder: Path, update: int) -> None:
    """Removes old checkpoints, and newer ones: those were passed over as damaged on resume."""
    best = (folder / "best").resolve()
    newer = [p for p in directories(folder) if update_of(p) > update]
    older = [p for p in directories(folder) if update_of(p) <= update][:-KEEP]
    for path in newer + [p for p in older if p.resolve() != best]:
        remove_whole(path)


def newest_checkpoint(
    run_dir: Path, settings: Mapping[str, Any], say: Callable[[str], None]
) -> Checkpoint | None:
    """The newest intact checkpoint of a run; None where it was killed before its first one.

    Such a run has made no update, so it loses nothing if it starts again from its configuration.

    Args:
        run_dir: the run folder.
        settings: JSON values of the settings that the run goes on with.
        say: shows that a run starts again, that config.json has no checksum, and which settings it lacks.

    Raises:
        CheckpointError: all checkpoints are damaged, or they are gone and the record holds updates.
        ValueError: a row of the record is damaged.
    """
    folder, config = run_dir / "checkpoints", run_dir / CONFIG_FILE
    if config.exists():
        if settings_intact(run_dir) is None:
            say(f"{config} has no checksum: damage would not be seen")
        say_defaults(config, completed(load_json(config), settings)[1], say)
    record = run_dir / METRICS_FILE
    updates = any(row["step"] > 0 for row, _ in rows_of(record_lines(record), str(record)))
    if updates or directories(folder):
        return load_newest(folder)
    say(f"{run_dir} has no checkpoint yet: the run begins anew from its config.json")
    return None


def completed(
    stored: Mapping[str, Any],
    own: Mapping[str, Any],
    needed: Collection[str] = (),
    inside: str = "",
) -> tuple[dict[str, Any], list[str]]:
    """(nested values of a record with what they lack taken from a run's own, dotted names of what was taken).

    Args:
        stored: out of the record.
        own: of the run that goes on from it.
        needed: dotted names of what is not taken, nor anything inside it.
        inside: what stands before the names.
    """
    found, lacking = dict(stored), list[str]()
    for name, value in own.items():
        dotted, there = f"{inside}{name}", stored.get(name)
        if dotted in needed:
            continue
        if name not in stored:
            found[name] = value
            lacking.append(dotted)
        elif isinstance(value, Mapping) and isinstance(there, Mapping):
            found[name], deeper = completed(there, value, needed, f"{dotted}.")
            lacking += deeper
    return found, lacking


def say_defaults(path: Path, names: Sequence[str], say: Callable[[str], None]) -> None:
    """Says in one line which entries of a record were missing; nothing where none was."""
    if names:
        say(
            f"{path} has no {', '.join(names)}: it is of an older version, and the default is taken"
        )
