"""Won endings played out: the stronger side against a defender, each game to the end by the rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from chess_env.games.players import Player
from chess_env.games.so_far import GamesInPlay
from chess_env.matches.match_result import PLY_LIMIT
from chess_env.positions.endings import ENDINGS, WonPositions
from chess_env.rules.fen import to_fen
from chess_env.rules.rules import CHECKMATE, ONGOING, STATUS_NAMES

MAX_PLIES = 300
"""The ply limit: more than the fifty-move rule leaves of a game without captures and pawn moves."""


@dataclass(frozen=True)
class EndingGame:
    """One game.

    Attributes:
        fen: where it began.
        won: True: the stronger side mated; False: it was mated; None: drawn.
        ending: the rule that ended it (`rules.STATUS_NAMES`), or "ply_limit".
        plies: of both sides.
        actions: the moves.
    """

    fen: str
    won: bool | None
    ending: str
    plies: int
    actions: tuple[int, ...]


@dataclass(frozen=True)
class EndingResult:
    """The games of one ending against one defender.

    Attributes:
        ending: one of `ENDINGS`.
        defender: its name.
        games: in the order of the positions.
        best_plies: median over the positions of the plies of a forced mate that a search found.
    """

    ending: str
    defender: str
    games: tuple[EndingGame, ...]
    best_plies: float

    @property
    def wins(self) -> int:
        """Games in which the stronger side mated."""
        return sum(game.won is True for game in self.games)

    def counts(self) -> dict[str, Any]:
        """Plain values: wins, draws by cause, losses, median plies to mate (None without a win) and of best play."""
        plies = [game.plies for game in self.games if game.won is True]
        drawn = [game.ending for game in self.games if game.won is None]
        return {
            "ending": self.ending,
            "defender": self.defender,
            "games": len(self.games),
            "wins": self.wins,
            "draws": len(drawn),
            "losses": len(self.games) - self.wins - len(drawn),
            "draw_causes": dict(sorted(Counter(drawn).items())),
            "median_plies_to_mate": float(np.median(plies)) if plies else None,
            "median_plies_of_a_forced_mate": self.best_plies,
        }


def play_ending(
    player: Player, defender: Player, positions: WonPositions, *, seed: int
) -> EndingResult:
    """One game from each position, `player` with the stronger side and the first move.

    Args:
        player: chooses the moves of the stronger side.
        defender: chooses those of the other.
        positions: from `draw_endings`.
        seed: of the players' moves; each side of each game has its own generator.

    Raises:
        RuntimeError: a player chose an illegal action.
        EngineError: an engine gave no move.
    """
    starts = positions.positions
    count, everywhere = len(starts), np.arange(len(starts))
    kind, players = ENDINGS.index(positions.ending), (player, defender)
    in_play = GamesInPlay(starts, players)
    rngs = [
        [np.random.default_rng([seed, kind, side, game]) for game in range(count)]
        for side in range(2)
    ]
    moves: list[list[int]] = [[] for _ in range(count)]
    active = everywhere
    for ply in range(MAX_PLIES):
        mover = players[ply % 2]
        actions = in_play.ask(mover, active, rngs[ply % 2])
        in_play.play(active, actions)
        for row, action in zip(active.tolist(), actions.tolist(), strict=True):
            moves[row].append(action)
        active = active[in_play.boards.status[active] == ONGOING]
        if not len(active):
            break
    games = []
    for row, status in enumerate(in_play.boards.status.tolist()):
        mated = status == CHECKMATE
        games.append(
            EndingGame(
                to_fen(starts[row]),
                len(moves[row]) % 2 == 1 if mated else None,
                PLY_LIMIT if status == ONGOING else STATUS_NAMES[status],
                len(moves[row]),
                tuple(moves[row]),
            )
        )
    best = float(np.median(2 * positions.mate_in - 1))
    return EndingResult(positions.ending, defender.name, tuple(games), best)
