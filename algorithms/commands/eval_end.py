"""How the measures of `chess-lab eval` end: what was found is written and printed, also after an error or a signal."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from algorithms.commands.result_files import UnwritableError, write_json
from algorithms.run_folder.stopping import exit_code, signals_raise
from algorithms.run_folder.terminal import complain
from chess_env.custom_objects import explained


def stopped(measure: Callable[[], None]) -> tuple[str, int]:
    """(what stopped `measure`, the exit code); ("", 0) where it came to its end.

    Raises:
        ImportError: a package is missing.
    """
    try:
        with signals_raise():
            measure()
    except KeyboardInterrupt as stop:
        name, code = exit_code(stop)
        return f"stopped by {name}", code
    except ImportError as error:
        if error.name is not None:  # the command line says which extra brings the package
            raise
        return explained(error), 1
    except (ValueError, RuntimeError, OSError) as error:
        return explained(error), 1
    return "", 0


def write_figures(
    options: argparse.Namespace, found: bool, values: Callable[[], dict[str, Any]]
) -> list[str]:
    """What went wrong in writing the file of --json. Where nothing was found, an earlier result stays."""
    path = options.json
    if path is None or (not found and path.is_file() and path.stat().st_size > 0):
        return []
    try:
        write_json(path, values())
    except UnwritableError as error:
        return [str(error)]
    return []


def end(code: int, problems: Sequence[str]) -> int:
    """The exit code, after what went wrong was said on stderr."""
    said = [problem for problem in problems if problem]
    for problem in said:
        complain("chess-lab eval", problem)
    return code or (1 if said else 0)
