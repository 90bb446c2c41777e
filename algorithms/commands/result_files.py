"""The files that a command's options name: --json, --pgn."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chess_env.matches.match_result import MatchResult


TRUST_HELP = (
    "import the network that the run folder's settings name, where it is none of this project's"
)
"""Help of --trust in commands that play a policy."""


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
    """The error where the file of an option cannot be written, with what to do."""
    return f"{option} {str(path)!r} cannot be written ({error.strerror}): give the path of a file"


def try_json(path: Path | None) -> None:
    """Calls `try_path` for the file that --json names, where one was given.

    Raises:
        JsonPathError: it cannot be written; names the path and what to do.
    """
    try:
        if path is not None:
            try_path(path)
    except OSError as error:
        raise JsonPathError(cannot_write("--json", path, error)) from None


def try_path(path: Path) -> None:
    """Makes the folder of a file and checks that the file can be written; its contents stay.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not os.path.lexists(path)
    path.open("ab").close()
    if is_new:
        path.unlink()


def holds_something(path: Path | None) -> bool:
    """Whether the file already holds a result, which an error alone should not replace."""
    return path is not None and path.is_file() and path.stat().st_size > 0


def write_files(
    options: argparse.Namespace, found: dict[str, MatchResult], failed: str, temperature: float
) -> list[str]:
    """Errors in writing the files that were asked for; if one fails, the other is still written.

    After an error they get the games that were played; if there are none, an earlier result stays.
    """
    problems = []
    if options.json is not None and (found or not holds_something(options.json)):
        try:
            write_json(options.json, _values(options, found, failed, temperature))
        except JsonPathError as error:
            problems.append(str(error))
    if options.pgn is not None and found:
        try:
            _write_pgn(options, found)
        except OSError as error:
            problems.append(cannot_write("--pgn", options.pgn, error))
    return problems


def _values(
    options: argparse.Namespace, found: dict[str, MatchResult], failed: str, temperature: float
) -> dict[str, Any]:
    from algorithms.evaluation.strength import to_dict
    from chess_env.matches.arena import MATCH_PLIES

    return {
        "checkpoint": options.checkpoint,
        "temperature": temperature,
        "openings": options.openings,
        "seed": options.seed,
        "max_plies": MATCH_PLIES,
        "error": failed,
        "opponents": [to_dict(name, match) for name, match in found.items()],
    }


def _write_pgn(options: argparse.Namespace, found: dict[str, MatchResult]) -> None:
    from chess_env.matches.match_result import to_pgn

    with options.pgn.open("w", encoding="utf-8") as file:
        for match in found.values():
            file.writelines(to_pgn(match, f"chess-lab eval, seed {options.seed}"))
