"""A policy to be handed on: its weights, its network's settings, a model card, and a manifest of the three.

    FOLDER/{model.safetensors, config.json, README.md, manifest.json}

The manifest is that of a checkpoint, so such a folder is loaded as a checkpoint is. Whoever takes one trusts nothing
in it: there may be no other file, and each must have the size and the SHA-256 that the manifest states.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from algorithms.run_folder.atomic_files import (
    CONFIG_FILE,
    PARTIAL,
    cut,
    flush_directory,
    naming,
    parse_json,
    read_file,
    write_flushed,
)
from algorithms.run_folder.checkpoint import (
    MANIFEST_FILE,
    WEIGHTS_FILE,
    CheckpointError,
    closed,
    entry,
)

CARD_FILE = "README.md"
FILES = (CARD_FILE, CONFIG_FILE, WEIGHTS_FILE)
"""What a bundle holds beside its manifest."""

_LARGEST_MANIFEST = 10_000  # bytes; ours have 600


class BundleError(RuntimeError):
    """A bundle cannot be taken, read or written; the message says why and what to do."""


def verified(
    sizes: Mapping[str, int], read: Callable[[str], bytes], where: str
) -> dict[str, bytes]:
    """The files of a bundle by name, each of them what the manifest states.

    Names and sizes are checked before anything but the manifest is read.

    Args:
        sizes: name -> bytes of all that lies there.
        read: gives the content of a file.
        where: what messages call the place.

    Raises:
        BundleError: a file is missing, is one too many, or differs from the manifest, or the manifest is damaged.
    """
    wanted = {*FILES, MANIFEST_FILE}
    if missing := sorted(wanted - sizes.keys()):
        raise BundleError(
            f"{where} has no {', '.join(missing)}, so it is no policy of `chess-lab push`: give another source"
        )
    if others := sorted(sizes.keys() - wanted):
        raise BundleError(
            f"{where} holds {cut(', '.join(others))} beside {', '.join(sorted(wanted))}, and nothing else is taken "
            "from a stranger: ask its owner to remove that, or to push the run anew"
        )
    if sizes[MANIFEST_FILE] > _LARGEST_MANIFEST:
        raise _differs(
            MANIFEST_FILE, where, f"it has {sizes[MANIFEST_FILE]:,} bytes, ours have 600"
        )
    raw = read(MANIFEST_FILE)
    try:
        values = parse_json(raw)
        del values["sha256"]
        if raw != closed(values):
            raise ValueError("its own SHA-256 differs")
        if set(values["files"]) != set(FILES):
            raise ValueError(f"it names {', '.join(values['files'])}, not {', '.join(FILES)}")
        stated = {name: entry(values, Path(name)) for name in FILES}
    except (ValueError, KeyError, TypeError, CheckpointError) as error:
        raise _differs(MANIFEST_FILE, where, cut(error)) from error
    for name, each in stated.items():
        if sizes[name] != each["bytes"]:
            raise _differs(
                name, where, f"{sizes[name]:,} bytes, the manifest says {each['bytes']:,}"
            )
    contents = {name: read(name) for name in FILES}
    for name, data in contents.items():
        if hashlib.sha256(data).hexdigest() != stated[name]["sha256"]:
            raise _differs(name, where, "its SHA-256 is not that of the manifest")
    return {**contents, MANIFEST_FILE: raw}


def _differs(name: str, where: str, why: str) -> BundleError:
    return BundleError(
        f"{name} of {where} is damaged or was changed ({why}): fetch it again, or ask its owner to push anew"
    )


def read_bundle(folder: Path) -> dict[str, bytes]:
    """The files of the bundle in a folder, as of `verified`; no symbolic link is followed.

    Raises:
        BundleError: as of `verified`, or the folder cannot be read, or something in it is no plain file.
    """
    try:
        found = sorted(folder.iterdir())
        for path in found:
            if path.is_symlink() or not path.is_file():
                raise BundleError(f"{path} is a link or no file, and is not followed: remove it")
        sizes = {path.name: path.stat().st_size for path in found}
        return verified(sizes, lambda name: read_file(folder / name), str(folder))
    except OSError as error:
        raise BundleError(
            f"{cut(folder)} cannot be read ({error.strerror}): give a folder of `chess-lab push`"
        ) from error


def check_free(folder: Path) -> None:
    """Checks that a bundle may be written there: nothing is overwritten.

    Raises:
        BundleError: there is something already.
    """
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise BundleError(f"{folder} exists already and is left as it is: name a new folder")


def write_bundle(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Writes a bundle, whole or not at all.

    Args:
        folder: that is not there yet, or empty.
        contents: each of `FILES`, and the manifest.

    Raises:
        BundleError: there is something already, or it cannot be written; nothing is left half-written.
    """
    check_free(folder)
    partial = folder.with_name(f"{PARTIAL}{folder.name}-{os.getpid()}")
    try:
        with naming(partial):
            partial.mkdir(parents=True)
            for name, data in contents.items():
                write_flushed(partial / name, data)
            flush_directory(partial)
            os.replace(partial, folder)
            flush_directory(folder.parent)
    except OSError as error:
        raise BundleError(
            f"{folder} cannot be written ({error.strerror}): name another folder"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
