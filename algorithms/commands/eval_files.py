"""The files of `chess-lab eval`: the figures of its matches and their games."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from algorithms.run_folder.files import JsonPathError, cannot_write, holds_something, write_json

if TYPE_CHECKING:
    from chess_env.matches.match_result import MatchResult


def write_files(
    options: argparse.Namespace, found: dict[str, MatchResult], failed: str, temperature: float
) -> list[str]:
    """What went wrong in writing the files that were asked for; each is tried, whatever becomes of the other.

    They get what was played before an error too; where that is nothing, an earlier result stays.
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
