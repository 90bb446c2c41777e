"""Positions and the moves played in them, from games filtered by rating, with all damage counted."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Iterator

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

from algorithms.pretraining.pgn_text import PgnFile
from chess_env.moves import move_to_action
from chess_env.positions.heldout import heldout_hashes
from chess_env.rules.fen import parse_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import (
    ONGOING,
    apply_batch,
    hash_batch,
    legal_actions_batch,
    status_batch,
)

_DECIDES_START = re.compile(r"\[\s*(FEN|SetUp|Variant)\b", re.IGNORECASE)
_LATER_MOVE = re.compile(r"\s*(?!0*1\s*\.)\d+\s*\.")

MAX_PLIES = 17_697
"""Of the longest game that the rules of chess allow (the seventy-five-move rule)."""

_STANDARD = {name.lower() for name in chess.Board.aliases}


@dataclasses.dataclass
class GameCounts:
    """Counts of games in a file.

    Attributes:
        games: games begun.
        used: games that gave a position.
        low_rated: left out, because a player's rating is below the limit or not given.
        variants: left out, because they are not standard chess.
        bad_starts: left out, because their start position is damaged, missing or illegal.
        illegal_moves: games with a move that is illegal or no move; what is before it is used.
        after_result: games with moves behind their result in the same line; what is before is used.
        truncated: games without a result at their end; all but their last move, which may be cut, is
            used.
        broken_headers: header lines that are damaged.
        unreadable: games that the parser gave up; the part that it had read is used.
        held_out: positions left out, because they are in the held-out table.
        ended_early: 1 where the file itself is damaged or cut; what is before that is used.
    """

    games: int = 0
    used: int = 0
    low_rated: int = 0
    variants: int = 0
    bad_starts: int = 0
    illegal_moves: int = 0
    after_result: int = 0
    truncated: int = 0
    broken_headers: int = 0
    unreadable: int = 0
    held_out: int = 0
    ended_early: int = 0

    def line(self) -> str:
        """The counts that are not 0, for people."""
        found = {name: count for name, count in dataclasses.asdict(self).items() if count}
        return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in found.items())


class _Moves(chess.pgn.BaseVisitor[None]):
    """Collects the main line of one game.

    Attributes:
        start: the board before the first move; None where the game is left out.
        actions: of the moves, up to the first that cannot be read.
        broken: whether there was such a one.
        ended: whether a result was read.
        seen: moves that were read, of the main line.
        goes_on: whether moves stand behind it.
    """

    def __init__(self, min_rating: int, counts: GameCounts, *, bad_start: bool) -> None:
        self._min_rating, self._counts, self._bad_start = min_rating, counts, bad_start
        self._headers = chess.pgn.Headers({})
        self.start: chess.Board | None = None
        self.actions: list[int] = []
        self.broken = self.ended = self.goes_on = False
        self.seen = 0

    def begin_headers(self) -> chess.pgn.Headers:
        """The headers, kept for `end_headers`."""
        return self._headers

    def visit_header(self, tagname: str, tagvalue: str) -> None:
        """Keeps a header; a name that python-chess refuses is none that is read here."""
        self._headers[tagname] = tagvalue

    def end_headers(self) -> chess.pgn.SkipType | None:
        """SKIP where the game is not wanted."""
        counts, headers = self._counts, self._headers
        if headers.get("Variant", "Standard").lower() not in _STANDARD:
            counts.variants += 1
        elif self._bad_start or (headers.get("SetUp") == "1" and "FEN" not in headers):
            counts.bad_starts += 1
        elif not self._rated():
            counts.low_rated += 1
        else:
            return None
        return chess.pgn.SKIP

    def _rated(self) -> bool:
        for name in ("WhiteElo", "BlackElo"):
            text = self._headers.get(name, "").strip()
            rating = int(text) if re.fullmatch(r"[0-9]{1,5}", text) else -1
            if self._min_rating > 0 and rating < self._min_rating:
                return False
        return True

    def visit_board(self, board: chess.Board) -> None:
        """Keeps the start."""
        if self.start is None:
            self.start = board.copy()

    def visit_move(self, board: chess.Board, move: chess.Move) -> None:
        """Keeps a move of the main line: variations are skipped.

        Raises:
            ValueError: no game has so many.
        """
        self.seen += 1
        if self.seen > MAX_PLIES:
            raise ValueError(f"more than {MAX_PLIES:,} plies")
        if self.ended:  # of another game, whose beginning was not seen
            self.goes_on = True
            return
        if self.broken:  # a stray bracket makes the parser go on behind an illegal move
            return
        if not move:  # a null move leaves no game to go on with
            self.broken = True
            return
        self.actions.append(move_to_action(move, board.turn))

    def begin_variation(self) -> chess.pgn.SkipType:
        """SKIP."""
        return chess.pgn.SKIP

    def visit_result(self, result: str) -> None:
        """Notes that the game is whole."""
        self.ended = True

    def handle_error(self, error: Exception) -> None:
        """Ends the main line, without a message for each of millions of games."""
        if self.ended:
            self.goes_on = True
        else:
            self.broken = True

    def result(self) -> None:
        """Nothing; the attributes are the result."""


def read_positions(
    file: PgnFile, *, min_rating: int, skip_plies: int, counts: GameCounts
) -> Iterator[tuple[Positions, NDArray[np.int16]]]:
    """(uint64 `[n, 8]` positions, int16 `[n]` actions played in them) of each game, n = 0 for many.

    A game that gives nothing is yielded too, so that the caller can stop and show progress.
    Left out are forced moves, positions in which a game is over by the rules, and held-out ones.

    Args:
        file: the games.
        min_rating: both players have at least this rating; 0 takes all games.
        skip_plies: at the beginning of each game.
        counts: the games are added to it.
    """
    held_out = np.fromiter(heldout_hashes(), np.uint64)
    for text in file.games():
        counts.games += 1
        game = _parse(text, min_rating, counts)
        if game is None:
            yield np.zeros((0, 8), np.uint64), np.zeros(0, np.int16)
            continue
        start, actions = game
        path = _path(start, actions)
        positions, played = path[skip_plies:], np.array(actions, np.int16)[skip_plies:]
        known = np.isin(hash_batch(positions), held_out)
        counts.held_out += int(known.sum())
        _, num_legal = legal_actions_batch(positions)
        wanted = ~known & (num_legal >= 2) & (status_batch(positions) == ONGOING)
        counts.used += bool(wanted.any())
        yield positions[wanted], played[wanted]
    counts.ended_early = int(bool(file.ended_early))


def _path(start: Positions, actions: list[int]) -> Positions:
    """uint64 `[n, 8]`: the positions in which the actions were played."""
    path = np.empty((len(actions), 8), np.uint64)
    path[0] = start
    for ply, action in enumerate(actions[:-1]):
        path[ply + 1] = apply_batch(path[ply : ply + 1], np.array([action]))[0]
    return path


def _parse(text: str, min_rating: int, counts: GameCounts) -> tuple[Positions, list[int]] | None:
    """(start, actions of the main line) of a game, or None where it is left out or has no move."""
    broken_headers = _broken_headers(text)
    counts.broken_headers += len(broken_headers)
    bad_start = any(_DECIDES_START.match(line) for line in broken_headers)
    bad_start |= _LATER_MOVE.match(text) is not None  # the end of a game whose beginning is lost
    moves = _Moves(min_rating, counts, bad_start=bad_start)
    try:
        chess.pgn.read_game(io.StringIO(text), Visitor=lambda: moves)
    except ValueError:  # such as a comment mark of thousands of digits
        counts.unreadable += 1
        moves.ended = True
    if moves.start is None:
        # Wanted by its headers, and yet without a board: the parser refused the start position.
        counts.bad_starts += moves.broken
        return None
    if moves.start.chess960:
        counts.variants += 1
        return None
    try:
        start = parse_fen(moves.start.fen())
    except ValueError:
        counts.bad_starts += 1
        return None
    counts.illegal_moves += moves.broken
    counts.after_result += moves.goes_on
    if not (moves.broken or moves.ended):
        counts.truncated += 1
        moves.actions = moves.actions[:-1]
    return (start, moves.actions) if moves.actions else None


def _broken_headers(text: str) -> list[str]:
    """Lines in front of the moves that begin as headers and are none."""
    broken = []
    for line in text.splitlines():
        if line.isspace() or not line:
            continue
        if not line.startswith("["):
            break
        if not chess.pgn.TAG_REGEX.match(line):
            broken.append(line)
    return broken
