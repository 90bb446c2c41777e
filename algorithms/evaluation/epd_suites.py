"""How many points of an EPD suite players get, by the kind of its positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.side_by_side import share_cell, share_values, side_by_side
from chess_env.games.arguments import player_error
from chess_env.games.players import Player, ask
from chess_env.positions.epd_suites import KINDS, EpdBatch
from chess_env.rules.fen import to_fen
from chess_env.rules.mates import mates_within
from chess_env.rules.rules import legal_actions_batch

TITLE = "% of the points (95 %, Wilson)"


def solve(player: Player, suite: EpdBatch, *, seed: int) -> NDArray[np.float64]:
    """float64 [N]: the share of each position's points that the player's move gets, 0 to 1.

    A player is asked about the position alone.

    Args:
        player: of the moves.
        suite: from `EpdFile`.
        seed: of the player's moves; each position has its own generator, by its line in the file.

    Raises:
        RuntimeError: the player chose an illegal action.
        EngineError: an engine gave no move.
    """
    count = len(suite)
    rngs = [np.random.default_rng([seed, line]) for line in suite.lines.tolist()]
    chosen = ask(player, suite.positions, np.zeros(count, np.int64), rngs)
    illegal = ~(legal_actions_batch(suite.positions)[0] == chosen[:, None]).any(axis=1) | (
        chosen < 0
    )
    if illegal.any():
        at = int(np.argmax(illegal))
        raise player_error(player, int(chosen[at]), to_fen(suite.positions[at]))
    points = (suite.kinds == KINDS.index("am")).astype(np.float64)
    named = suite.actions == chosen[suite.rows]
    rows, worth = suite.rows[named], suite.worth[named]
    points[rows] = 0.0
    np.maximum.at(points, rows, worth)
    unnamed = np.ones(count, np.bool_)
    unnamed[rows] = False
    for row in np.flatnonzero((suite.mate_in > 0) & unnamed).tolist():
        points[row] = mates_within(suite.positions[row], int(chosen[row]), int(suite.mate_in[row]))
    return points


class EpdTally:
    """Points by the kind of the positions; it does not grow with them.

    Args:
        players: their number.
    """

    def __init__(self, players: int) -> None:
        self._points = np.zeros((1 + players, len(KINDS)))

    def add(self, suite: EpdBatch, points: Sequence[NDArray[np.float64]]) -> None:
        """Adds some positions and the points of each player, float64 [N] each."""
        added = np.zeros_like(self._points)
        np.add.at(added.T, suite.kinds, np.stack([np.ones(len(suite)), *points]).T)
        self._points += added  # at once: a signal may come between two statements

    @property
    def total(self) -> int:
        """Number of positions."""
        return int(self._points[0].sum())

    def rows(self) -> list[tuple[str, int, list[float]]]:
        """(kind, positions, points of each player) of the kinds that occur, and of all."""
        found = [
            (kind, int(column[0]), column[1:].tolist())
            for kind, column in zip(KINDS, self._points.T, strict=True)
            if column[0]
        ]
        return [*found, ("all", self.total, self._points[1:].sum(axis=1).tolist())]


def table(names: Sequence[str], tally: EpdTally) -> list[str]:
    """Lines of at most 79 columns: the share of the points of each kind of position that each player got."""
    rows = [
        (kind, count, [share_cell(each, count) for each in points])
        for kind, count, points in tally.rows()
    ]
    return side_by_side("kind", "positions", names, rows, [])


def to_dict(names: Sequence[str], tally: EpdTally) -> list[dict[str, Any]]:
    """Plain values of each player: shares of the points with their intervals, by kind and of all."""
    rows = tally.rows()
    return [
        {
            "name": name,
            "kinds": [
                {"kind": kind, "positions": count, "points": points[at]}
                | share_values(points[at], count)
                for kind, count, points in rows
            ],
        }
        for at, name in enumerate(names)
    ]
