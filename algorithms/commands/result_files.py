"""The files that a command's options name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

TRUST_HELP = (
    "import the network that the run folder's settings name, where it is none of this project's"
)
"""Help of --trust in commands that play a policy."""

PLACE_HELP = "user/name on the Hugging Face Hub, or a folder, which begins with ./, ../, / or ~"
"""Help of what `chess-lab push` writes to and `chess-lab pull` reads from."""


class UnwritableError(Exception):
    """The file that an option names cannot be written."""


def write_json(path: Path | None, values: dict[str, Any]) -> None:
    """Writes a command's result to `path` where one was given.

    Raises:
        UnwritableError: it cannot be written; names the path and what to do.
    """
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UnwritableError(cannot_write("--json", path, error)) from None


def cannot_write(option: str, path: Path | None, error: OSError) -> str:
    """The error where the file of an option cannot be written, with what to do."""
    return f"{option} {str(path)!r} cannot be written ({error.strerror}): give the path of a file"


def try_path(option: str, path: Path | None) -> None:
    """Makes the folder of the file that an option names and checks that it can be written; its contents stay.

    Raises:
        UnwritableError: it cannot be written; names the path and what to do.
    """
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not os.path.lexists(path)
        path.open("ab").close()
        if is_new:
            path.unlink(missing_ok=True)  # several processes of a run may try it at once
    except OSError as error:
        raise UnwritableError(cannot_write(option, path, error)) from None
