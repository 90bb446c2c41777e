"""The files of a grid: replaced in one step, locked, and read although a kill may have cut them."""

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
