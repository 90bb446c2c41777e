"""Directories of files with a manifest: whole or absent, and never silently wrong."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from algorithms.run_folder.files import PARTIAL, flush_directory, remove_whole, write_flushed
from algorithms.run_folder.reading import cut, parse_json, read_file

FORMAT = 2
WEIGHTS_FILE = "model.safetensors"
MANIFEST_FILE = "manifest.json"
MOST_BYTES = 2**31  # of a file of tensors: half a billion numbers
_MOST_STATE_BYTES, _MOST_MANIFEST_BYTES = 8 * 2**20, 2**16
_ENTRY = {"bytes": int, "sha256": str}  # of a manifest
_NAME = re.compile(r"update-(\d{8,})")


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
            raise _unusable(file, f"is damaged: {size:,} bytes, {cut(f'{written:,}')} were written")
        data = read_file(file, MOST_BYTES if file.suffix == ".safetensors" else _MOST_STATE_BYTES)
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
        raw = read_file(file, _MOST_MANIFEST_BYTES)
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
