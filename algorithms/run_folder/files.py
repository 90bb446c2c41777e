"""Files that are whole or absent, also after a power cut; results as JSON; locks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TAIL_LINES = 8


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
    """None; `path` holds `data`, or after a kill at any instant what it held before."""
    partial = path.with_name(f"{path.name}.partial")
    write_flushed(partial, data)
    os.replace(partial, path)
    flush_directory(path.parent)


class GridError(RuntimeError):
    """The grid cannot run here; the message says why and what to do."""


def write_atomically(path: Path, values: Any) -> None:
    """None; replaces a JSON file in one step, so that a kill leaves the old or the new one."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Holds the folder's lock; GridError where another process has it (not noticed on Windows)."""
    with (out / ".grid.lock").open("a+", encoding="utf-8") as file:
        try:
            import fcntl
        except ImportError:
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise GridError(
                f"{out} is in use by {owner}: wait for it, or choose another folder"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where it is missing, cut by a kill, or no object."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def last_lines(path: Path) -> list[str]:
    """Last lines of a log, without colours and empty lines."""
    text = path.read_text(encoding="utf-8", errors="replace")[-20_000:]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in text.splitlines()]
    return [line for line in lines if line][-TAIL_LINES:]


class JsonPathError(Exception):
    """The file named by --json cannot be written."""


def write_json(path: Path | None, values: dict[str, Any]) -> None:
    """Writes a command's result to `path` where one was given.

    Raises:
        JsonPathError: it cannot be written; names the path and what to do.
    """
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise JsonPathError(cannot_write("--json", path, error)) from None


def cannot_write(option: str, path: Path | None, error: OSError) -> str:
    """What is said where the file that an option names cannot be written, and what to do."""
    return f"{option} {str(path)!r} cannot be written ({error.strerror}): give the path of a file"


def try_json(path: Path | None) -> None:
    """None; `try_path` for the file that --json names, where one was given.

    Raises:
        JsonPathError: it cannot be written; names the path and what to do.
    """
    try:
        if path is not None:
            try_path(path)
    except OSError as error:
        raise JsonPathError(cannot_write("--json", path, error)) from None


def try_path(path: Path) -> None:
    """None; makes the folder of a file and tries that it can be written, but leaves what is there as it is.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not os.path.lexists(path)
    path.open("ab").close()
    if is_new:
        path.unlink()


def holds_something(path: Path | None) -> bool:
    """Whether there is a result in the file already, which an error alone should not replace."""
    return path is not None and path.is_file() and path.stat().st_size > 0
