"""Files that are whole or absent, also after a power cut; one writer at a time; JSON and JSON lines."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

# What lies in every run folder.
METRICS_FILE = "metrics.jsonl"
CONFIG_FILE = "config.json"
ENVIRONMENT_FILE = "environment.json"
LOCK_FILE = ".lock"
CHECKSUM = "sha256"
"""The first value of a file of `closed_object`: the SHA-256 of the file without that line."""
PARTIAL = "partial-"
"""How the name of a checkpoint or link begins that is being made or removed."""

WANDB_RUN = re.compile(r"(?:offline-)?run-(\d{8}_\d{6})-.+")
"""The name of a folder of W&B's: when it was made, in local time; the id of the run follows."""
_WANDB_LOG = (
    "debug-core.log"  # W&B's own link out of each of its folders; it writes nothing through that
)
RUN_WRITES = frozenset(
    {METRICS_FILE, CONFIG_FILE, ENVIRONMENT_FILE, LOCK_FILE, "checkpoints", "snapshots", "probes",
     "bad_batches", "labels", "tensorboard", "wandb", ".wandb"}
)  # fmt: skip
"""What a run writes in its folder; whatever else lies there is somebody else's, and is left alone."""

_HEAD_BYTES = 82  # with the bracket before it
# What is left of the head where any one bit of it was flipped.
_HEAD_TRACE = re.compile(rb'"sha256": "|[0-9a-f]{64}')
_SHOWN = 200


class RunFolderError(RuntimeError):
    """The run folder cannot be used; the message says why and what to do."""


class UntrustedError(Exception):
    """A run folder names code, a program or a file that the user has not allowed; the message names each.

    No ValueError: whoever opens folders must not take it for a fault of the folder.
    """


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Makes an OSError from inside name `path`: those of write and fsync name no file."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def write_flushed(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Writes `data`, whole or in parts, to a new file and brings it to disk.

    Raises:
        FileExistsError: there is something at `path`, be it a symbolic link, which is not followed.
    """
    with path.open("xb") as file:
        file.writelines([data] if isinstance(data, bytes) else data)
        file.flush()
        os.fsync(file.fileno())


def flush_directory(path: Path) -> None:
    """Brings a directory's entries to disk: without it a power cut can undo a rename."""
    if os.name != "posix":  # elsewhere a directory cannot be opened for that
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Puts `data` into the file at `path`; after a kill at any instant that holds the old data or the new.

    A symbolic link at `path` gives way to the file; what it leads to is left alone.

    Raises:
        OSError: it cannot be written, and is named; `path` is as it was.
    """
    partial = path.with_name(f".{path.name}.partial")
    with naming(path):
        partial.unlink(missing_ok=True)  # of a process that was killed
        try:
            write_flushed(partial, data)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        flush_directory(path.parent)


def point(link: Path, name: str) -> None:
    """Makes `link` a relative symbolic link to `name`, in one atomic step."""
    partial = link.with_name(f"{PARTIAL}{link.name}-{os.getpid()}")
    partial.unlink(missing_ok=True)
    if link.is_dir() and not link.is_symlink():  # a copy of the run that followed the link
        remove_whole(link)
    partial.symlink_to(name)
    os.replace(partial, link)


def new_folder(wanted: Path) -> Path:
    """Makes a folder that was not there, and returns it: the wanted one, or that name with -2, -3, ... behind it."""
    folder = wanted
    for number in itertools.count(2):
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            folder = wanted.with_name(f"{wanted.name}-{number}")
        except OSError:  # who writes into it says what to do
            break
        else:
            break
    return folder


def remove_whole(folder: Path) -> None:
    """Removes a folder, under another name, so that a kill leaves no half of one."""
    gone = folder.with_name(f"{PARTIAL}{folder.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        os.replace(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def replace_json(path: Path, values: Any) -> None:
    """Calls `replace_file` with values as readable JSON."""
    replace_file(path, json.dumps(values, indent=2).encode() + b"\n")


def closed_object(values: dict[str, Any]) -> bytes:
    """A file of readable JSON, of an object with at least one value, and its checksum."""
    return _with_checksum(json.dumps(values, indent=2).encode() + b"\n")


def object_intact(data: bytes) -> bool | None:
    """Whether a file of `closed_object` is as it was written; None where it has no checksum."""
    if not _HEAD_TRACE.search(data[:_HEAD_BYTES]):
        return None
    return data == _with_checksum(b"{\n" + data[_HEAD_BYTES:])


def settings_intact(run_dir: Path) -> bool | None:
    """`object_intact` of a run's config.json; None also where it is missing or cannot be read."""
    try:
        return object_intact(read_file(run_dir / CONFIG_FILE))
    except (OSError, ValueError):
        return None


def _with_checksum(data: bytes) -> bytes:
    head = f'{{\n  "{CHECKSUM}": "{hashlib.sha256(data).hexdigest()}",\n'.encode()
    return head + data.removeprefix(b"{\n")


def refuse_ways_out(folder: Path, written: Collection[str] = ()) -> None:
    """Checks that what is written into the folder stays in it.

    W&B writes into no folder that it made before, so what lies in those is let be.

    Args:
        folder: with all that is in it, at any depth.
        written: names in it that are written; empty: all.

    Raises:
        RunFolderError: a symbolic link leads out, a file has a second name, which may be anywhere, or something is
            neither a file nor a folder.
    """
    root, now = folder.resolve(), time.strftime("%Y%m%d_%H%M%S")
    waiting = [str(root)]
    while waiting:
        inside = waiting.pop()
        # What is gone since it was listed leads nowhere.
        with contextlib.suppress(FileNotFoundError), os.scandir(inside) as entries:
            for entry in entries:
                if written and inside == str(root) and entry.name not in written:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    made = WANDB_RUN.fullmatch(entry.name)
                    if made is None or made[1] >= now:
                        waiting.append(entry.path)
                elif entry.is_symlink() and entry.name != _WANDB_LOG:
                    end = Path(entry.path).resolve()
                    if not end.is_relative_to(root):
                        raise RunFolderError(
                            f"{entry.path} is a symbolic link to {end}, outside the folder, and would be written "
                            "through: remove it, or put what it leads to in its place"
                        )
                elif not (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                    raise RunFolderError(f"{entry.path} is neither a file nor a folder: remove it")
                elif entry.stat(follow_symlinks=False).st_nlink > 1:
                    raise RunFolderError(
                        f"{entry.path} is a hard link: the same file has another name, perhaps outside the folder, "
                        "and would be written there too; continue in a copy of the folder (cp -r)"
                    )


def lock_folder(folder: Path, name: str = LOCK_FILE, written: Collection[str] = ()) -> IO[str]:
    """An open file that holds a folder's lock until it is closed or the process ends.

    Whoever holds it writes into the folder, so a stranger's folder is checked here too.

    Windows has no such locks: two writers are not noticed there.

    Args:
        folder: to be written by one process at a time.
        name: of the file that is locked.
        written: as of `refuse_ways_out`.

    Raises:
        RunFolderError: another process holds it, or something in the folder leads out (`refuse_ways_out`).
    """
    refuse_ways_out(folder, written)
    file = (folder / name).open("a+", encoding="utf-8")
    try:
        import fcntl
    except ImportError:
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as busy:
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        raise RunFolderError(
            f"{folder} is being written by {owner}: wait for it, or choose another folder"
        ) from busy
    with naming(folder / name):
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
    return file


def cut(text: object) -> str:
    """`str(text)`, cut behind 200 characters: what messages repeat of an input."""
    said = str(text)
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}..."


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """The file, open for reading.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is a pipe or a device, from which one might read for ever.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{cut(path)} is a pipe or a device, a file is needed")
        yield file


def _without_waiting(path: str, flags: int) -> int:
    # A pipe would wait for somebody to write into it.
    return os.open(path, flags | (os.O_NONBLOCK if os.name == "posix" else 0))


def read_file(path: Path) -> bytes:
    """The content of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no file.
    """
    with open_file(path) as file:
        return file.read()


def parse_json(data: bytes | str) -> Any:
    """The values in JSON text; bytes are UTF-8.

    Raises:
        ValueError: it is no JSON, or nested more deeply than Python reads.
    """
    try:
        return json.loads(data if isinstance(data, str) else data.decode("utf-8"))
    except RecursionError:
        raise ValueError("values are nested too deeply") from None


def load_json(path: Path) -> Any:
    """The values in a JSON file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no JSON.
    """
    return parse_json(read_file(path))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where it is missing, cut by a kill, or no object."""
    try:
        values = load_json(path)
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def edited_files(records: Iterable[Any]) -> list[str]:
    """Files of a user's own that differ between the records of an environment.json, in order."""
    known: dict[str, str] = {}
    found: dict[str, None] = {}
    for each in records:
        objects = each.get("own_objects") if isinstance(each, dict) else None
        for name, source in objects.items() if isinstance(objects, dict) else ():
            digest = source.get("sha256") if isinstance(source, dict) else None
            if isinstance(digest, str) and known.setdefault(name, digest) != digest:
                found[str(source.get("file"))] = None
                known[name] = digest
    return list(found)
