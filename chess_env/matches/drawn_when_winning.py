"""Games of a match that a side drew by repetition or by the fifty-move rule although it was winning."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from chess_env.evaluators import Evaluator
from chess_env.evaluators.protocol import scores_of
from chess_env.matches.match_result import Game, MatchResult
from chess_env.rules.packed import BLACK_BIT, STATE, Positions
from chess_env.rules.rules import FIFTY_MOVES, STATUS_NAMES, THREEFOLD, apply_batch

WINNING_CP = 300
"""A score of at least this, before the move that ended the game, is a winning one."""

ENDINGS = (STATUS_NAMES[THREEFOLD], STATUS_NAMES[FIFTY_MOVES])
"""The draws that a side can usually leave."""


@dataclasses.dataclass(frozen=True)
class ThrownAway:
    """One such game.

    Attributes:
        pair: number of its pair.
        first_is_white: which of the pair's games it is.
        ending: one of `ENDINGS`.
        by_first: whether the side that was winning is the match's first player.
        by_own_move: whether the winning side made the last move; otherwise it let the other one repeat.
        score_cp: of the position before the last move, from the winning side's view, at least `WINNING_CP`.
    """

    pair: int
    first_is_white: bool
    ending: str
    by_first: bool
    by_own_move: bool
    score_cp: int


@dataclasses.dataclass(frozen=True)
class DrawnWhenWinning:
    """All such games of a match.

    Attributes:
        evaluator_id: what says that a side was winning.
        drawn: games that ended in one of `ENDINGS`, winning or not.
        games: those in which a side was winning, in the match's order.
    """

    evaluator_id: str
    drawn: int
    games: tuple[ThrownAway, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the games, and for `first` and `second` their number, own last moves and median score."""
        return {
            "evaluator_id": self.evaluator_id,
            "winning_cp": WINNING_CP,
            "drawn_by_repetition_or_fifty_moves": self.drawn,
            "first": self.side(True),
            "second": self.side(False),
            "games": [dataclasses.asdict(game) for game in self.games],
        }

    def side(self, first: bool) -> dict[str, Any]:
        """`games`, `by_own_move` of them and `median_score_cp` (None without games) of one player."""
        own = [game for game in self.games if game.by_first == first]
        return {
            "games": len(own),
            "by_own_move": sum(game.by_own_move for game in own),
            "median_score_cp": float(median(game.score_cp for game in own)) if own else None,
        }


def drawn_when_winning(match: MatchResult, evaluator: Evaluator) -> DrawnWhenWinning:
    """The games in which the evaluator gives a side `WINNING_CP` or more before the move that draws."""
    drawn = [game for game in match.games if game.ending in ENDINGS]
    scores_cp = scores_of(evaluator, before_last_moves(drawn)).tolist() if drawn else []
    found = []
    for game, mover_cp in zip(drawn, scores_cp, strict=True):
        if abs(mover_cp) < WINNING_CP:
            continue
        mover_is_white = last_mover_is_white(game)
        by_own_move = mover_cp > 0
        by_first = by_own_move == (mover_is_white == game.first_is_white)
        found.append(
            ThrownAway(
                game.pair, game.first_is_white, game.ending, by_first, by_own_move, abs(mover_cp)
            )
        )
    return DrawnWhenWinning(evaluator.id, len(drawn), tuple(found))


def last_mover_is_white(game: Game) -> bool:
    """Whether White made the last move of a game, which has one."""
    white_opens = bool(game.opening[STATE] & BLACK_BIT == 0)
    return white_opens == (len(game.actions) % 2 == 1)


def before_last_moves(games: Sequence[Game]) -> Positions:
    """uint64 [N, 8]: the position before the last move of each game, which has one."""
    positions = np.array([game.opening for game in games], np.uint64)
    for ply in range(max(len(game.actions) for game in games) - 1):
        rows = [row for row, game in enumerate(games) if ply < len(game.actions) - 1]
        actions = np.array([games[row].actions[ply] for row in rows], np.int64)
        positions[rows] = apply_batch(positions[rows], actions)
    return positions
