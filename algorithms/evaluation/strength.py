"""Strength of a policy: the summary of its games."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from algorithms.reports.elo import PairScore, count_pairs, judge_pairs
from chess_env.matches.match_result import LEAD_CP, MatchResult

_HEADING = f"{'opponent':<27}{'W/D/L':<12}{'score % (95 %)':<19}Elo (95 %)"

_WIDTH = 79


def to_dict(opponent: str, match: MatchResult) -> dict[str, Any]:
    """The match as plain values: the opponent, `MatchResult.counts`, `PairScore.to_dict` and the void pairs."""
    judged = judge_pairs(count_pairs(match.pair_points()))
    return {
        "opponent": opponent,
        "opponent_name": match.second,
        **match.counts(),
        **judged.to_dict(),
        "void": [
            {"pair": pair.pair, "attempt": pair.attempt, "reason": pair.reason}
            for pair in match.void
        ],
    }


def table(matches: Mapping[str, MatchResult]) -> list[str]:
    """One line for each opponent below a heading, then a paragraph on each; fits 79 columns for short names."""
    rows, details = [_HEADING], []
    for opponent, match in matches.items():
        judged = judge_pairs(count_pairs(match.pair_points()))
        counts = match.counts()
        results = f"{counts['wins']}/{counts['draws']}/{counts['losses']}"
        ends = f"{100 * judged.interval.low:.1f}-{100 * judged.interval.high:.1f}"
        score = f"{100 * judged.score:.1f} ({ends})"
        rows.append(f"{opponent:<26} {results:<11} {score:<18} {judged.elo}")
        details += ["", opponent]
        for line in _details(match, counts, judged):
            details += textwrap.wrap(
                line, _WIDTH, initial_indent="    ", subsequent_indent="      "
            )
    return rows + details


def _details(match: MatchResult, counts: Mapping[str, Any], judged: PairScore) -> list[str]:
    pairs = "/".join(map(str, judged.counts))
    nelo = "none" if judged.nelo is None else f"{judged.nelo:+.0f} +- {judged.nelo_margin:.0f}"
    lines = [
        f"pairs with 0/0.5/1/1.5/2 points: {pairs}; LOS {judged.los:.1%}; nElo {nelo}",
        f"{_draws(counts)}; {counts['mean_plies']:.0f} plies a game",
        f"ahead by {LEAD_CP:,} cp in {_share(counts['led'], counts['led_and_won'], 'won')}; "
        f"behind in {_share(counts['trailed'], counts['trailed_and_lost'], 'lost')}",
    ]
    if judged.note:
        lines.append(judged.note)
    if match.void or match.engine_restarts:
        lines.append(
            f"engines restarted: {match.engine_restarts}; pairs void and played again: {len(match.void)}"
        )
    return lines


def _draws(counts: Mapping[str, Any]) -> str:
    if not counts["draws"]:
        return "no draws"
    causes = sorted(counts["draw_causes"].items(), key=lambda item: -item[1])
    listed = ", ".join(f"{cause} {number}" for cause, number in causes)
    lead = counts["median_lead_in_draws_cp"]
    return f"draws by {listed}; median lead in draws {lead:+,.0f} cp"


def _share(games: int, ended: int, how: str) -> str:
    """Such as `40 games, 30 (75%) won`."""
    return f"{games} games, {ended} ({ended / games:.0%}) {how}" if games else "no game"
