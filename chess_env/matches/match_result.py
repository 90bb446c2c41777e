"""What a match was: every game with its moves and its end, and the counts that are read off them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

from chess_env.moves import action_to_move
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import Positions

LEADS_CP = (300, 500, 900, 1000)
"""Material leads of which the games with at least that much are counted, when the leader is to move: a piece, a
rook, a queen, and `LEAD_CP`."""

LEAD_CP = 1000
"""The lead behind `conversion`, one that should be won."""

PLY_LIMIT = "ply_limit"
"""How a game ended that was cut off; it counts as drawn."""


@dataclasses.dataclass(frozen=True, eq=False)
class Game:
    """One finished game, from the view of the match's first player.

    Attributes:
        pair: number of its pair, from 0.
        attempt: 0, or how often this pair had become void before.
        opening: uint64 [8], the position that it began from.
        first_is_white: whether the first player had the white men.
        actions: int16 [T], the moves after the opening.
        points: 1 won, 0.5 drawn, 0 lost by the first player.
        ending: name of the rule that ended it (`rules.STATUS_NAMES`), or "ply_limit".
        final_lead_cp: material of the first player minus the other's at the end, centipawns.
        first_best_lead_cp: the largest lead in material with which the first player was ever to move, centipawns;
            0 where it never led.
        second_best_lead_cp: the same of the other player.
    """

    pair: int
    attempt: int
    opening: Positions
    first_is_white: bool
    actions: NDArray[np.int16]
    points: float
    ending: str
    final_lead_cp: int
    first_best_lead_cp: int
    second_best_lead_cp: int

    @property
    def result(self) -> str:
        """The PGN result: "1-0", "0-1" or "1/2-1/2"."""
        if self.points == 0.5:
            return "1/2-1/2"
        return "1-0" if (self.points == 1.0) == self.first_is_white else "0-1"


@dataclasses.dataclass(frozen=True)
class VoidPair:
    """A pair of which an engine lost a game; it was played again from another opening.

    Attributes:
        pair: its number.
        attempt: which try it was, from 0.
        reason: what the engine died of.
    """

    pair: int
    attempt: int
    reason: str


@dataclasses.dataclass(frozen=True, eq=False)
class MatchResult:
    """A match of game pairs with colours swapped.

    Attributes:
        first: name of the player whose points are counted.
        second: name of the other one.
        games: two for each pair, in the order of the pairs; the first player has the move in the first.
        void: pairs that had to be played again.
        engine_restarts: engines that were replaced during the match; their questions were asked again, and
            as an engine's answer depends on the position alone, no game was changed by it.
    """

    first: str
    second: str
    games: tuple[Game, ...]
    void: tuple[VoidPair, ...]
    engine_restarts: int

    def pair_points(self) -> list[float]:
        """The first player's points in each pair, 0 to 2."""
        return [
            one.points + other.points
            for one, other in zip(self.games[::2], self.games[1::2], strict=True)
        ]

    def joined(self, more: MatchResult) -> MatchResult:
        """This match and the continuation of it that `more` is (`play_match` with a later `options.first_pair`).

        Raises:
            ValueError: the other match is of other players, or plays a pair of this one again.
        """
        again = {game.pair for game in self.games} & {game.pair for game in more.games}
        if (self.first, self.second) != (more.first, more.second) or again:
            raise ValueError(
                f"{more.first} v {more.second} with pairs {sorted(again)} of {self.first} v {self.second} "
                "is no continuation: expected the same players and later pairs"
            )
        return MatchResult(
            self.first,
            self.second,
            self.games + more.games,
            self.void + more.void,
            self.engine_restarts + more.engine_restarts,
        )

    def counts(self) -> dict[str, Any]:
        """Everything that is counted, as plain values.

        `wins`, `draws`, `losses` of the first player; `draw_causes` by ending; `led` games in which it was
        to move with a lead of `LEAD_CP`, and `led_and_won` of them, with `conversion` their share (None
        where it never led); the same of the other player as `trailed` and `trailed_and_lost`; `leads`, these
        four counts for each of `LEADS_CP`; `mean_plies`; `median_lead_in_draws_cp` (None without draws);
        `void_pairs` and `engine_restarts`.
        """
        points = [game.points for game in self.games]
        drawn = [game for game in self.games if game.points == 0.5]
        leads_won = [self._leads(lead_cp) for lead_cp in LEADS_CP]
        led = self._leads(LEAD_CP)
        leads = [game.final_lead_cp for game in drawn]
        return {
            "games": len(points),
            "wins": points.count(1.0),
            "draws": len(drawn),
            "losses": points.count(0.0),
            "draw_causes": dict(sorted(Counter(game.ending for game in drawn).items())),
            **{name: value for name, value in led.items() if name != "lead_cp"},
            "conversion": led["led_and_won"] / led["led"] if led["led"] else None,
            "leads": leads_won,
            "mean_plies": float(np.mean([len(game.actions) for game in self.games])),
            "median_lead_in_draws_cp": float(np.median(leads)) if leads else None,
            "void_pairs": len(self.void),
            "engine_restarts": self.engine_restarts,
        }

    def _leads(self, lead_cp: int) -> dict[str, int]:
        led = [game for game in self.games if game.first_best_lead_cp >= lead_cp]
        trailed = [game for game in self.games if game.second_best_lead_cp >= lead_cp]
        return {
            "lead_cp": lead_cp,
            "led": len(led),
            "led_and_won": sum(game.points == 1 for game in led),
            "trailed": len(trailed),
            "trailed_and_lost": sum(game.points == 0 for game in trailed),
        }


def to_pgn(match: MatchResult, event: str) -> Iterable[str]:
    """Each game of the match as PGN text, with its opening as FEN and the rule that ended it.

    Args:
        match: the match.
        event: the PGN tag of that name.
    """
    for number, game in enumerate(match.games):
        record = chess.pgn.Game()
        record.setup(to_fen(game.opening))
        names = (match.first, match.second)
        white, black = names if game.first_is_white else names[::-1]
        record.headers.update(
            Event=one_line(event),
            Round=f"{game.pair + 1}.{number % 2 + 1}",
            White=one_line(white),
            Black=one_line(black),
            Result=game.result,
        )
        record.headers["Termination"] = game.ending
        board, node = record.board(), record.end()
        for action in game.actions.tolist():
            move = action_to_move(action, board)
            node = node.add_main_variation(move)
            board.push(move)
        yield export_text(record) + "\n"


def export_text(game: chess.pgn.Game) -> str:
    """A game in PGN's export form, with a line end: lines of at most 80 characters, but for long tags (255)."""
    exporter = chess.pgn.StringExporter(columns=80, variations=False, comments=False)
    return f"{game.accept(exporter)}\n"


_TAG_ROOM = 230  # of a line of at most 255, with the tag's name


def one_line(text: str) -> str:
    """The text as the value of a PGN tag, which python-chess writes as it is: names of folders may hold anything."""
    value = ""
    for c in text:
        sign = f"\\{c}" if c in '\\"' else c if c.isprintable() else "?"
        if len(value) + len(sign) > _TAG_ROOM:
            break
        value += sign
    return value
