"""Score of `chess-lab uci` with and without its option Search against Stockfish held back by its options.

    python -m benchmarks.matches.search [--json benchmarks/results/match_search.json]

Both are UCI engines under python-chess and are told the game; openings, draw rules and ply limit are those of
`chess-lab eval`. The policy is greedy. Stockfish's Skill Level draws its moves by the clock, so that a repetition gives
other games.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from algorithms.evaluation.limited_stockfish import limited_stockfish
from algorithms.evaluation.uci_player import UciPlayer
from algorithms.reports.elo import count_pairs, judge_pairs
from benchmarks.records.report import print_table, save
from chess_env.matches.arena import MATCH_PLIES, play_match
from chess_env.positions.start_positions import make_start_positions

OPENINGS = "openings"


def measured(
    policy: str, options: dict[str, int | bool], opponent: str, games: int, seed: int
) -> tuple[str, dict[str, Any]]:
    """(the opponent's program, one match: its options, results and Elo difference)."""
    command = shlex.join([sys.executable, "-P", "-m", "algorithms.cli", "uci", policy])
    first, second = UciPlayer(command, "nodes=1", options), limited_stockfish(opponent)
    try:
        match = play_match(
            first,
            second,
            openings=make_start_positions(OPENINGS),
            pairs=games // 2,
            seed=seed,
            max_plies=MATCH_PLIES,
        )
        program = second.program
    finally:
        first.close()
        second.close()
    counts, judged = match.counts(), judge_pairs(count_pairs(match.pair_points()))
    return program, {
        **{"Search": 0, "Temperature": 0, **options},
        "games": games,
        "wins": counts["wins"],
        "draws": counts["draws"],
        "losses": counts["losses"],
        "score_percent": round(100 * judged.score, 2),
        "low": round(100 * judged.interval.low, 2),
        "high": round(100 * judged.interval.high, 2),
        "elo": str(judged.elo),
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.matches.search", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--policy", default="example", help="what `chess-lab uci` takes")
    parser.add_argument(
        "--search", type=int, nargs="+", default=[4, 8, 218], help="values of the option"
    )
    parser.add_argument(
        "--temperature", type=int, nargs="*", default=[], help="values, without a search"
    )
    parser.add_argument(
        "--opponent", default="engine:nodes=1,skill_level=0", help="its name in `chess-lab eval`"
    )
    parser.add_argument("--games", type=int, default=100, help="of each match; even")
    parser.add_argument("--seed", type=int, default=0, help="of the openings")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    settings: list[dict[str, int | bool]] = [{"Search": each} for each in arguments.search]
    settings += [{"Temperature": each} for each in arguments.temperature]
    rows, program = [], ""
    for each in settings:
        program, row = measured(
            arguments.policy, each, arguments.opponent, arguments.games, arguments.seed
        )
        rows.append(row)
        print(row, flush=True)
    print_table(rows)
    save(
        arguments.json,
        "match_search",
        rows,
        policy=arguments.policy,
        opponent=arguments.opponent,
        program=program,
        openings=OPENINGS,
        seed=arguments.seed,
    )


if __name__ == "__main__":
    main()
