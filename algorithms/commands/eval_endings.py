"""`chess-lab eval --endings`: how often a policy mates in won endings."""

from __future__ import annotations

import argparse
import sys
import textwrap
from contextlib import closing
from typing import TYPE_CHECKING, Any

from algorithms.commands.eval_end import end, stopped, write_figures
from algorithms.commands.eval_players import EvalPlayers

if TYPE_CHECKING:
    from chess_env.matches.won_endings import EndingResult

Found = dict[tuple[str, str], "EndingResult"]
"""By ending and defender, as far as they were played."""


def play_endings(options: argparse.Namespace, temperature: float) -> int:
    """Exit code of `chess-lab eval --endings`; prints and writes what was played, also after an error or a signal."""
    found: Found = {}
    failed, code = stopped(lambda: _play(options, temperature, found))
    problems = write_figures(
        options, bool(found), lambda: _values(options, temperature, found, failed)
    )
    if found:
        _print(options, temperature, found)
    return end(code, [failed, *problems])


def _play(options: argparse.Namespace, temperature: float, found: Found) -> None:
    from algorithms.evaluation.endings import DEFENDERS, POSITIONS, WITHOUT_STOCKFISH
    from chess_env.evaluators import find_stockfish
    from chess_env.matches.won_endings import play_ending
    from chess_env.positions.endings import ENDINGS, draw_endings

    with closing(EvalPlayers(options, temperature)) as players:
        player, names = players.evaluated, DEFENDERS
        if find_stockfish() is None:
            print(f"No Stockfish found: {WITHOUT_STOCKFISH} defends in its place.", file=sys.stderr)
            names = (DEFENDERS[0], WITHOUT_STOCKFISH)
        for name in names:
            defender = players.named(name)
            for ending in ENDINGS:
                print(f"playing {POSITIONS} games of {ending} against {name} ...", file=sys.stderr)
                positions = draw_endings(ending, seed=options.seed, count=POSITIONS)
                found[ending, name] = play_ending(player, defender, positions, seed=options.seed)


def _by_ending(found: Found) -> Found:
    from chess_env.positions.endings import ENDINGS

    return dict(sorted(found.items(), key=lambda item: ENDINGS.index(item[0][0])))


def _print(options: argparse.Namespace, temperature: float, found: Found) -> None:
    from algorithms.evaluation.endings import POSITIONS, best_play, table

    how = "greedy" if temperature == 0 else f"temperature {temperature:g}"
    print(
        f"{options.checkpoint} ({how}) with the stronger side, {POSITIONS} won positions of each "
        f"ending, seed {options.seed}\n"
    )
    print("\n".join(table(_by_ending(found))))
    print()
    print("\n".join(textwrap.wrap(best_play(list(_by_ending(found).values())), 79)))


def _values(
    options: argparse.Namespace, temperature: float, found: Found, failed: str
) -> dict[str, Any]:
    from algorithms.evaluation.endings import to_dict

    return {
        "checkpoint": options.checkpoint,
        "temperature": temperature,
        "seed": options.seed,
        "error": failed,
        "endings": [
            to_dict(defender, result) for (_, defender), result in _by_ending(found).items()
        ],
    }
