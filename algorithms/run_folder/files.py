"""Files that are whole or absent, also after a power cut; one writer at a time; JSON and JSON lines."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

# What lies in every run folder.
METRICS_FILE = "metrics.jsonl"
CONFIG_FILE = "config.json"
ENVIRONMENT_FILE = "environment.json"


class RunFolderError(RuntimeError):
    """The run folder cannot be used; the message says why and what to do."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """None; an OSError from inside names `path`: those of write and fsync name no file."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def write_flushed(path: Path, data: bytes) -> None:
    """None; writes `data` to `path` and brings it to disk."""
    with path.open("wb") as file:
        file.write(data)
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


def replace_file(path: Path, data: bytes) -> None:
    """None; `path` holds `data`, or after a kill at any instant what it held before.

    Raises:
        OSError: it cannot be written, and is named; `path` is as it was.
    """
    partial = path.with_name(f".{path.name}.partial")
    with naming(path):
        try:
            write_flushed(partial, data)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        flush_directory(path.parent)


def replace_json(path: Path, values: Any) -> None:
    """None; `replace_file` with values as readable JSON."""
    replace_file(path, json.dumps(values, indent=2).encode() + b"\n")


def lock_folder(
    folder: Path, name: str = ".lock", error: type[Exception] = RunFolderError
) -> IO[str]:
    """An open file that holds a folder's lock until it is closed or the process ends.

    Windows has no such locks: two writers are not noticed there.

    Args:
        folder: to be written by one process at a time.
        name: of the file that is locked.
        error: what is raised in place of RunFolderError.

    Raises:
        RunFolderError: another process holds it.
    """
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
        raise error(
            f"{folder} is being written by {owner}: wait for it, or choose another folder"
        ) from busy
    with naming(folder / name):
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
    return file


def json_lines(text: str, name: str) -> list[tuple[Any, str]]:
    """(value, line) for each line of JSON; a last line cut by a kill is left out.

    Args:
        text: of the file.
        name: of the file, for messages.

    Raises:
        ValueError: another line is not JSON; the message names its number.
    """
    lines, found = text.splitlines(keepends=True), []
    for number, line in enumerate(lines, start=1):
        try:
            found.append((json.loads(line), line))
        except (ValueError, RecursionError):
            if number == len(lines) and not line.endswith("\n"):
                break
            raise ValueError(
                f"{name}, line {number} is damaged: {line[:80]!r}; take the line out"
            ) from None
    return found


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where it is missing, cut by a kill, or no object."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
