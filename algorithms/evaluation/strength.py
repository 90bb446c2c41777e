"""Strength of a policy in games: the ladder of opponents, and the summary of its games."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from algorithms.reports.elo import PairScore, count_pairs, judge_pairs
from algorithms.reports.judges import judge_in_words
from algorithms.reports.statistics import share_interval
from chess_env.matches.drawn_when_winning import WINNING_CP, DrawnWhenWinning
from chess_env.matches.match_result import MatchResult

_HEADING = f"{'opponent':<27}{'W/D/L':<12}{'score % (95 %)':<19}Elo (95 %)"

_WIDTH = 79


MIN_LEADS = 10
"""Games with a lead below this number are too few for a share."""


def to_dict(opponent: str, match: MatchResult, drawn: DrawnWhenWinning | None) -> dict[str, Any]:
    """The match as plain values.

    Args:
        opponent: its name on the command line.
        match: gives `MatchResult.counts`, `PairScore.to_dict` and the void pairs. Each of its `leads` gets
            `won_share` of the games led and `lost_share` of those trailed, with the ends of their 95 %
            intervals; all None below `MIN_LEADS` games.
        drawn: its games that were drawn when winning; None where nobody looked.
    """
    judged = judge_pairs(count_pairs(match.pair_points()))
    counts = match.counts()
    for lead in counts["leads"]:
        lead |= _shares("won_share", lead["led_and_won"], lead["led"])
        lead |= _shares("lost_share", lead["trailed_and_lost"], lead["trailed"])
    return {
        "opponent": opponent,
        "opponent_name": match.second,
        **counts,
        "drawn_when_winning": None if drawn is None else drawn.to_dict(),
        **judged.to_dict(),
        "void": [
            {"pair": pair.pair, "attempt": pair.attempt, "reason": pair.reason}
            for pair in match.void
        ],
    }


def _shares(name: str, hits: int, count: int) -> dict[str, float | None]:
    if count < MIN_LEADS:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    interval = share_interval(hits, count)
    return {name: hits / count, f"{name}_low": interval.low, f"{name}_high": interval.high}


def table(
    matches: Mapping[str, MatchResult], drawn: Mapping[str, DrawnWhenWinning] | None = None
) -> list[str]:
    """One line for each opponent below a heading, then a paragraph on each; fits 79 columns for short names.

    Args:
        matches: by opponent.
        drawn: the games of each that were drawn when winning, where somebody looked.
    """
    rows, details = [_HEADING], []
    for opponent, match in matches.items():
        judged = judge_pairs(count_pairs(match.pair_points()))
        counts = match.counts()
        results = f"{counts['wins']}/{counts['draws']}/{counts['losses']}"
        ends = f"{100 * judged.interval.low:.1f}-{100 * judged.interval.high:.1f}"
        score = f"{100 * judged.score:.1f} ({ends})"
        rows.append(f"{opponent:<26} {results:<11} {score:<18} {judged.elo}")
        details += ["", opponent]
        lines = _details(match, counts, judged)
        if drawn is not None and drawn[opponent].drawn:
            lines.append(_thrown_away(drawn[opponent]))
        for line in lines:
            details += textwrap.wrap(
                line, _WIDTH, initial_indent="    ", subsequent_indent="      "
            )
        details += [f"    {line}" for line in _leads(counts["leads"])]
    return rows + details


def _details(match: MatchResult, counts: Mapping[str, Any], judged: PairScore) -> list[str]:
    pairs = "/".join(map(str, judged.counts))
    nelo = "none" if judged.nelo is None else f"{judged.nelo:+.0f} +- {judged.nelo_margin:.0f}"
    lines = [
        f"pairs with 0/0.5/1/1.5/2 points: {pairs}; LOS {judged.los:.1%}; nElo {nelo}",
        f"{_draws(counts)}; {counts['mean_plies']:.0f} plies a game",
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


def _thrown_away(drawn: DrawnWhenWinning) -> str:
    said = []
    for who, first in (("the policy", True), ("its opponent", False)):
        side = drawn.side(first)
        said.append(f"{who} {side['games']}")
        if side["games"]:
            said[-1] += (
                f" ({side['by_own_move']} by its own move, median {side['median_score_cp']:+,.0f} cp)"
            )
    return (
        f"drawn by repetition or fifty moves when winning ({WINNING_CP} cp or more, says "
        f"{judge_in_words(drawn.evaluator_id)}): {'; '.join(said)}; of {drawn.drawn} such draws"
    )


_LEAD_HEADING = f"{'lead when to move':<20}{'policy ahead, won (95 %)':<27}behind, lost (95 %)"


def _leads(leads: Sequence[Mapping[str, int]]) -> list[str]:
    """Rows of at most 75 columns: for each lead the games in which either side had it, and how many it won."""
    return [_LEAD_HEADING] + [
        f"{lead['lead_cp'] / 100:.0f} pawns".ljust(20)
        + _converted(lead["led_and_won"], lead["led"]).ljust(27)
        + _converted(lead["trailed_and_lost"], lead["trailed"])
        for lead in leads
    ]


def _converted(won: int, games: int) -> str:
    """Such as `30 of 40, 75% (60-86)`."""
    if not games:
        return "no game"
    if games < MIN_LEADS:
        return f"{won} of {games} (too few)"
    interval = share_interval(won, games)
    return (
        f"{won} of {games}, {won / games:.0%} ({100 * interval.low:.0f}-{100 * interval.high:.0f})"
    )


LADDER = (
    "random",
    "engine:nodes=1@random=0.9",
    "engine:nodes=1@random=0.75",
    "material",
    "engine:nodes=1@random=0.5",
    "engine:nodes=1@random=0.25",
    "builtin",
    "engine:nodes=1",
    "engine:nodes=100",
    "engine:nodes=1000",
)
"""Names of `chess_env.games.players.make_player`, weakest first.

The order is that of measured strength: a uniformly random player scores .36 against Stockfish at one node
with 90 % random moves, .18 with 75 %, .09 against the material-greedy player and .03 or less from there on. No setting
of the engine alone resolves anything that weak: its Skill Level and UCI_Elo begin above the material-greedy
player, and are seeded by the clock.
"""

START = "material"
"""The first rung that is played."""

PROBE_PAIRS = 10
"""Game pairs after which it is decided whether to go up or down."""

FULL_RUNGS = 2
"""Rungs that are played to the full number of pairs: those with a score nearest to one half."""

Play = Callable[[str, int, int], MatchResult]
"""(opponent, number of pairs, number of the first pair) -> these pairs against it."""


def rungs_here(has_stockfish: bool) -> tuple[str, ...]:
    """The ladder, without the rungs that need Stockfish where there is none."""
    return tuple(name for name in LADDER if has_stockfish or not name.startswith("engine:"))


def climb(rungs: Sequence[str], play: Play, *, pairs: int, found: dict[str, MatchResult]) -> None:
    """Fills `found` with the matches against the rungs that were played, as far as they were.

    A few pairs on the first rung, then up from a score of at least one half and down from a lower one,
    until the next rung has been played or there is none. The rungs with scores nearest to one half are
    then played to `pairs` pairs: there a game says most about strength.

    Args:
        rungs: names, weakest first; `START` is among them.
        play: plays one match.
        pairs: of the rungs that are played on.
        found: empty; filled as matches end, so that an error later loses nothing.
    """
    rung = rungs.index(START)
    while 0 <= rung < len(rungs) and rungs[rung] not in found:
        name = rungs[rung]
        found[name] = play(name, min(PROBE_PAIRS, pairs), 0)
        rung += 1 if _score(found[name]) >= 0.5 else -1
    nearest = sorted(found, key=lambda name: abs(_score(found[name]) - 0.5))
    for name in nearest[:FULL_RUNGS]:
        played = len(found[name].pair_points())
        if played < pairs:
            found[name] = found[name].joined(play(name, pairs - played, played))


def _score(match: MatchResult) -> float:
    points = match.pair_points()
    return sum(points) / (2 * len(points))
