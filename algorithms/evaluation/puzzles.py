"""How many puzzles of a file players solve, by their ratings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.half_solved import HalfSolved, half_solved
from algorithms.evaluation.side_by_side import share_cell, share_values, side_by_side
from chess_env.games.players import Player
from chess_env.games.so_far import GamesInPlay
from chess_env.positions.puzzles import MAX_RATING, PuzzleBatch
from chess_env.rules.rules import CHECKMATE, apply_batch, status_batch

BAND = 250
"""Rating points of one band."""

TITLE = "% solved (95 %, Wilson), and the rating at which half are solved (half at)"


def solve(player: Player, puzzles: PuzzleBatch, *, seed: int) -> NDArray[np.bool_]:
    """bool [N]: which puzzles the player solves, all in lockstep.

    A puzzle is solved where every own move is the line's, or up to one that mates: any mate is accepted. A player knows
    the line so far, where it looks at games, and nothing before it.

    Args:
        player: of the own moves.
        puzzles: from `PuzzleFile`.
        seed: of the player's moves; each puzzle has its own generator, by its line in the file.

    Raises:
        RuntimeError: the player chose an illegal action.
        EngineError: an engine gave no move.
    """
    count = len(puzzles)
    active = np.arange(count)
    solved = np.zeros(count, np.bool_)
    in_play = GamesInPlay(puzzles.positions, [player])
    rngs = [np.random.default_rng([seed, line]) for line in puzzles.lines.tolist()]
    for ply in range(puzzles.actions.shape[1]):
        actions = puzzles.actions[active, ply].astype(np.int64)
        if ply % 2:
            chosen = in_play.ask(player, active, rngs)
            positions = in_play.boards.positions[active]
            mates = status_batch(apply_batch(positions, chosen)) == CHECKMATE
            right = chosen == actions
            ends = puzzles.num_plies[active] == ply + 1
            solved[active] = mates | right & ends
            goes_on = right & ~mates & ~ends
            active, actions = active[goes_on], actions[goes_on]
            if not len(active):
                break
        in_play.play(active, actions)
    return solved


class PuzzleTally:
    """Counts of puzzles by rating: all of them, and those that each player solved. It does not grow with the puzzles.

    Args:
        players: their number.
    """

    def __init__(self, players: int) -> None:
        self._counts = np.zeros((1 + players, MAX_RATING + 1), np.int64)

    def add(self, puzzles: PuzzleBatch, solved: Sequence[NDArray[np.bool_]]) -> None:
        """Adds some puzzles and which of them each player solved, bool [N] each."""
        more = np.stack([np.ones(len(puzzles)), *solved]).astype(np.int64)
        added = np.zeros_like(self._counts)
        np.add.at(added.T, puzzles.ratings, more.T)
        self._counts += added  # at once: a signal may come between two statements

    @property
    def total(self) -> int:
        """Number of puzzles."""
        return int(self._counts[0].sum())

    def bands(self) -> list[tuple[int, int, list[int]]]:
        """(lowest rating, puzzles, those that each player solved) of each band that has a puzzle."""
        starts = np.arange(0, MAX_RATING + 1, BAND)
        sums = np.add.reduceat(self._counts, starts, axis=1).T.tolist()
        return [
            (start, row[0], row[1:])
            for start, row in zip(starts.tolist(), sums, strict=True)
            if row[0]
        ]

    def solved(self) -> list[int]:
        """Puzzles that each player solved."""
        return [int(row.sum()) for row in self._counts[1:]]

    def half_solved(self) -> list[HalfSolved]:
        """For each player the rating of the puzzles of which it solves half."""
        ratings = np.flatnonzero(self._counts[0])
        counts, *solved = self._counts[:, ratings].astype(np.float64)
        return [half_solved(ratings.astype(np.float64), each, counts) for each in solved]


def table(names: Sequence[str], tally: PuzzleTally) -> list[str]:
    """Lines of at most 79 columns: the share of the puzzles of each rating band that each player solved."""
    rows: list[tuple[str, int | None, list[str]]] = [
        (f"{start}-{start + BAND - 1}", count, [share_cell(each, count) for each in solved])
        for start, count, solved in tally.bands()
    ]
    rows.append(("all", tally.total, [share_cell(each, tally.total) for each in tally.solved()]))
    halves = tally.half_solved()
    rows.append(("half at", None, [_half_cell(half) for half in halves]))
    notes = [
        f"half at of {name} cannot be told: {half.why_not}"
        for name, half in zip(names, halves, strict=True)
        if half.why_not
    ]
    return side_by_side("rating", "puzzles", names, rows, notes)


def _half_cell(half: HalfSolved) -> str:
    return "-" if half.rating is None else f"{half.rating:.0f} ({half.low:.0f}-{half.high:.0f})"


def to_dict(names: Sequence[str], tally: PuzzleTally) -> list[dict[str, Any]]:
    """Plain values of each player: shares with their intervals, all and by band, and the rating of half."""
    bands, halves = tally.bands(), tally.half_solved()
    return [
        {
            "name": name,
            **_share(solved, tally.total),
            "half_solved": half.to_dict(),
            "bands": [
                {"from": start, "to": start + BAND - 1, **_share(band[at], count)}
                for start, count, band in bands
            ],
        }
        for at, (name, solved, half) in enumerate(zip(names, tally.solved(), halves, strict=True))
    ]


def _share(solved: int, count: int) -> dict[str, Any]:
    return {"puzzles": count, "solved": solved, **share_values(solved, count)}
