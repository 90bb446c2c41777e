"""Positions and the moves played in them, from a .pgn or .pgn.zst file of any size, read once.

The file is cut into games line by line. A comment may hold anything, a line that looks like a header among it; so
what is open is followed. Damage stays where it is: a game's text ends where the next one begins, whatever stands
before it. (`chess.pgn` alone reads a game in German notation wrongly, and without an error.) Games are filtered by
rating, and all damage is counted.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

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

Place = Literal["this game", "another game", "no game"]
_HEADER = re.compile(r"\[\s*([A-Za-z0-9]\w*)")  # not "[%clk ...", which belongs to a comment
_WHOLE_HEADER = re.compile(r'\[\s*([A-Za-z0-9]\w*)\s+".*"\s*\]\s*$')
_COMMENT = re.compile(r"\{[^}]*\}")
_ANY_COMMENT = re.compile(r"(\{)[^}]*(\}?)|;.*", re.DOTALL)
_RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
_FIRST_MOVE = re.compile(r"\s*1\s*\.(?!\s*[.\d])")  # not "1... e5", which goes on after a comment
_SAN = r"[NBKRQ]?[a-h]?[1-8]?[-x]?[a-h][1-8]|O-O|0-0"
_ANY_MOVE = re.compile(rf"\b(?:{_SAN})")
_MOVE = re.compile(rf"\s*(?:\d+\s*\.|{_SAN})")
_CHUNK_BYTES = 1 << 16
_BYTE_ORDER_MARK = "\ufeff"  # also in the middle, of files that were put one behind the other


class GameLines:
    """Assigns each line of a file to a game; the lines come in their order.

    Another game begins at a header that stands behind moves, at moves behind a result, at move 1
    where there are moves already, and without headers at moves behind an empty line. Where a header
    is not due, in the middle of moves or of a comment, it must be whole to be taken for one.
    """

    def __init__(self) -> None:
        self._in_comment = False
        self._begin()

    def _begin(self) -> None:
        self._headers = self._event = False
        self._behind_headers = self._moves = self._played = False
        self._over = self._after_blank = False
        self._depth = 0

    def place(self, line: str) -> Place:
        """Where the line belongs: "no game" where it is only around the games.

        Args:
            line: with its line end.
        """
        if line.startswith("%") and not self._in_comment:
            return "no game"
        name = self._header(line)
        begins = self._take_text(line) if name is None else self._take_header(name)
        if begins:
            return "another game"
        return "this game" if self._headers or self._moves else "no game"

    def _header(self, line: str) -> str | None:
        """The name in a header; None where the line is none."""
        due = not self._behind_headers or self._over or self._after_blank
        pattern = _HEADER if due and not self._in_comment else _WHOLE_HEADER
        found = pattern.match(line)
        return None if found is None else found[1]

    def _take_header(self, name: str) -> bool:
        begins = self._behind_headers or (name == "Event" and self._event)
        if begins:
            self._begin()
        self._in_comment = False  # one that was never closed
        self._headers, self._event = True, self._event or name == "Event"
        return begins

    def _take_text(self, line: str) -> bool:
        in_comment = self._in_comment
        text = self._without_comments(line)
        if line.isspace() and not in_comment:
            # An empty line ends the moves, and with them a variation that was never closed.
            self._after_blank, self._depth = self._behind_headers, 0
        if not text or text.isspace():
            self._behind_headers |= self._headers and not line.isspace()
            return False
        begins = self._depth == 0 and self._moves_begin(text)
        if begins:
            self._begin()
        self._behind_headers = self._moves = True
        self._played = self._played or _ANY_MOVE.search(text) is not None
        self._after_blank = False
        if "(" in text or ")" in text:
            for bracket in re.findall("[()]", text):
                self._depth = max(0, self._depth + (1 if bracket == "(" else -1))
        self._over = self._depth == 0 and text.rsplit(None, 1)[-1] in _RESULTS
        return begins

    def _moves_begin(self, text: str) -> bool:
        ended = self._over or (self._after_blank and not self._headers)
        if not (ended or self._played):
            return False
        return (_MOVE if ended else _FIRST_MOVE).match(text) is not None

    def _without_comments(self, line: str) -> str:
        """What of the line stands outside of comments; notes whether one is open at its end."""
        if self._in_comment:
            _, closed, line = line.partition("}")
            if not closed:
                return ""
            self._in_comment = False
        if ";" in line:
            text = _ANY_COMMENT.sub(r"\1\2", line)  # leaves "{}" of a comment, "{" of an open one
            self._in_comment = text.endswith("{")
            return text.replace("{}", " ").removesuffix("{")
        if "{" not in line:
            return line
        # The same and ten times faster, for the millions of games with a comment at every move.
        opened = line.find("{", line.rfind("}") + 1)
        self._in_comment = opened >= 0
        return _COMMENT.sub(" ", line[:opened] if self._in_comment else line)


class PgnFile:
    """A file of games, from its beginning to its end or to where it is damaged.

    Args:
        path: .pgn, or .pgn.zst.

    Raises:
        ValueError: it cannot be opened.
        ModuleNotFoundError: .zst without the package zstandard; the message says how to install it.

    Attributes:
        size_bytes: of the file on disk.
        ended_early: why the file could not be read to its end; "" where it could.
    """

    def __init__(self, path: Path) -> None:
        self.ended_early = ""
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ValueError(
                f"games {str(path)!r} cannot be read ({error.strerror}): give a .pgn or .pgn.zst file"
            ) from error
        self.size_bytes = os.fstat(self._file.fileno()).st_size
        try:
            raw: Any = _Unzst(self._file, path, self) if path.suffix == ".zst" else self._file
        except BaseException:
            self._file.close()
            raise
        self._text = io.TextIOWrapper(io.BufferedReader(raw), "utf-8", errors="replace")

    @property
    def bytes_read(self) -> int:
        """How far the file on disk has been read."""
        return self._file.tell()

    def games(self) -> Iterator[str]:
        """The text of each game: its headers and what follows up to the next game."""
        lines: list[str] = []
        where = GameLines()
        for raw in self._text:
            line = raw.removeprefix(_BYTE_ORDER_MARK)
            place = where.place(line)
            if place == "no game":
                continue
            if place == "another game":
                yield "".join(lines)
                lines = []
            lines.append(line)
        if lines:
            yield "".join(lines)

    def close(self) -> None:
        """Closes the file."""
        self._text.close()
        self._file.close()


class _Unzst(io.RawIOBase):
    """The unpacked bytes of a zstd file; what is readable of a damaged one, and why it ended."""

    def __init__(self, file: Any, path: Path, owner: PgnFile) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise ModuleNotFoundError(
                f"{str(path)!r} is packed, and reading it needs the package zstandard ({error}): "
                'run pip install -e ".[pgn]" in the clone, or unpack the file'
            ) from error
        self._unpacker, self._error = zstandard.ZstdDecompressor(), zstandard.ZstdError
        self._file, self._path, self._owner = file, path, owner
        self._frame: Any = None
        self._packed, self._unpacked = b"", memoryview(b"")
        self._began = False

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Number of bytes put into `buffer`; 0 at the end.

        Raises:
            ValueError: zstd cannot unpack the file from its beginning.
        """
        while not self._unpacked and not self._owner.ended_early:
            self._packed = self._packed or self._file.read(_CHUNK_BYTES)
            if not self._packed:
                if self._frame is not None:
                    self._owner.ended_early = "the .zst ends in the middle of a frame"
                break
            self._unpack()
        piece = self._unpacked[: len(buffer)]
        buffer[: len(piece)] = piece
        self._unpacked = self._unpacked[len(piece) :]
        return len(piece)

    def _unpack(self) -> None:
        self._frame = self._frame or self._unpacker.decompressobj()
        try:
            self._unpacked = memoryview(self._frame.decompress(self._packed))
        except self._error as error:
            if not self._began:
                raise ValueError(
                    f"games {str(self._path)!r} cannot be unpacked by zstd ({error}): name a plain file .pgn, fetch "
                    "a damaged one again, and unpack one that wants more memory with `zstd --long=31 -d`"
                ) from error
            self._owner.ended_early = f"the .zst is damaged ({error})"
            return
        self._began = self._began or len(self._unpacked) > 0
        # Files may be several frames, one behind the other.
        at_end = self._frame.eof
        self._packed = self._frame.unused_data if at_end else b""
        self._frame = None if at_end else self._frame


_DECIDES_START = re.compile(r"\[\s*(FEN|SetUp|Variant)\b", re.IGNORECASE)
_LATER_MOVE = re.compile(r"\s*(?!0*1\s*\.)\d+\s*\.")

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
        goes_on: whether moves stand behind it.
    """

    def __init__(self, min_rating: int, counts: GameCounts, *, bad_start: bool) -> None:
        self._min_rating, self._counts, self._bad_start = min_rating, counts, bad_start
        self._headers = chess.pgn.Headers({})
        self.start: chess.Board | None = None
        self.actions: list[int] = []
        self.broken = self.ended = self.goes_on = False

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
        """Keeps a move of the main line: variations are skipped."""
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
