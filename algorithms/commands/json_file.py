"""The file that `--json` names: a command's result for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


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
        raise JsonPathError(
            f"--json {str(path)!r} cannot be written ({error.strerror}): give the path of a file"
        ) from None
