"""This project beside its peers: the game, and Stockfish rewards. PPO has a script of its own, `benchmarks.peers.ppo`.

    python -m benchmarks.peers [--json benchmarks/results/peers.json] [--only games rewards]

Makes an environment for each peer with pinned versions, under `--cache`, and keeps it for the next time. Then all play
random legal moves on one core, round by round: planes or what the peer gives in their place, the mask of every ply read
whole, and a new game after each end. A peer that cannot be installed, or does not run, is a row with the reason.
Figures are CPU-seconds of the process, with rewards also of its engine.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.peers.contest import GAMES, contest, reward_peers
from benchmarks.records.command_line import ROOT
from benchmarks.records.report import print_table, save
from chess_env.evaluators.uci import find_stockfish

TABLES = ("games", "rewards")


def rewards(cache: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of the table of rewards."""
    engine = find_stockfish()
    if engine is None:
        reason = "no Stockfish found: install it, or set STOCKFISH_PATH"
        return [{"peer": "all", "not_measured_because": reason}]
    return contest(reward_peers(engine, options.depth), cache, options.rounds, options.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES, help="some tables")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU time of each in a round")
    parser.add_argument("--depth", type=int, default=4, help="of Stockfish")
    parser.add_argument("--cache", type=Path, default=ROOT / ".venv-peers", help="environments")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cache = options.cache.resolve()
    tables: dict[str, list[dict[str, Any]]] = {}
    if "games" in options.only:
        tables["games"] = contest(GAMES, cache, options.rounds, options.seconds)
    if "rewards" in options.only:
        tables["rewards"] = rewards(cache, options)
    for rows in tables.values():
        print()
        print_table(rows)
    rows = [{"table": name, **row} for name, own in tables.items() for row in own]
    settings = {"rounds": options.rounds, "seconds": options.seconds, "depth": options.depth}
    save(options.json, "peers", rows, **settings)


if __name__ == "__main__":
    main()
