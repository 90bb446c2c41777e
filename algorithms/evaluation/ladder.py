"""A ladder of opponents from near-random to strong, and how a policy climbs it.

The order is that of measured strength: a uniformly random player scores .36 against Stockfish at one node
with 90 % random moves, .18 with 75 %, .09 against the material-greedy player and .03 or less from there on. No setting
of the engine alone resolves anything that weak: its Skill Level and UCI_Elo begin above the material-greedy
player, and are seeded by the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chess_env.matches.match_result import MatchResult

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
"""Names of `chess_env.games.players.make_player`, weakest first."""

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
