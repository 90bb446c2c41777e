"""Files that are whole or absent, also after a power cut."""

from __future__ import annotations

import os
from pathlib import Path


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
