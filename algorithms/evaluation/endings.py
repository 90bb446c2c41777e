"""How often a policy mates in won endings: the games, and their summary."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.reports.statistics import share_interval
from chess_env.matches.won_endings import EndingResult

POSITIONS = 50
"""Games of each ending against each defender."""

DEFENDERS = ("random", "engine:nodes=1000")
"""Who defends; where there is no Stockfish the second is `WITHOUT_STOCKFISH`."""

WITHOUT_STOCKFISH = "builtin"

_CAUSES = {
    "threefold_repetition": "repetition",
    "fifty_moves": "50 moves",
    "stalemate": "stalemate",
    "insufficient_material": "no material",
    "ply_limit": "ply limit",
}
_WIDTH = 79
_COLUMNS = "{:<7}{:<18}{:<14}{:<7}{}"


def to_dict(defender: str, result: EndingResult) -> dict[str, Any]:
    """`EndingResult.counts`, the share won with its 95 % interval, and every game's start, end and plies."""
    counts = result.counts()
    interval = share_interval(counts["wins"], counts["games"])
    return {
        **counts,
        "defender": defender,
        "defender_name": result.defender,
        "won_share": counts["wins"] / counts["games"],
        "won_share_low": interval.low,
        "won_share_high": interval.high,
        "played": [
            {"fen": game.fen, "won": game.won, "ending": game.ending, "plies": game.plies}
            for game in result.games
        ],
    }


def table(found: Mapping[tuple[str, str], EndingResult]) -> list[str]:
    """Lines of at most 79 columns: for each (ending, defender) wins, plies to mate, and draws by cause."""
    lines = [_COLUMNS.format("ending", "defender", "won % (95 %)", "plies", "not won")]
    for (ending, defender), result in found.items():
        counts = result.counts()
        interval = share_interval(counts["wins"], counts["games"])
        won = f"{100 * counts['wins'] / counts['games']:.0f} ({100 * interval.low:.0f}-{100 * interval.high:.0f})"
        plies = counts["median_plies_to_mate"]
        row = _COLUMNS.format(
            ending, defender, won, "-" if plies is None else f"{plies:.0f}", _not_won(counts)
        )
        lines += textwrap.wrap(
            row, _WIDTH, subsequent_indent=" " * 46, drop_whitespace=True, break_on_hyphens=False
        )
    return [line.rstrip() for line in lines]


def best_play(found: Sequence[EndingResult]) -> str:
    """One line: how long the wins are in these positions."""
    plies = {result.ending: result.best_plies for result in found}
    listed = ", ".join(f"{ending} {median:.0f}" for ending, median in plies.items())
    return f"plies: median to mate; to one that a deep search forces: {listed}"


def _not_won(counts: Mapping[str, Any]) -> str:
    causes = sorted(counts["draw_causes"].items(), key=lambda item: -item[1])
    parts = [f"{_CAUSES.get(cause, cause)} {number}" for cause, number in causes]
    if counts["losses"]:
        parts.append(f"lost {counts['losses']}")
    return ", ".join(parts)
