"""Positions and the moves played in them, from a file of games of any size, read once.

The file is cut into games line by line. A comment may hold anything, a line that looks like a header among it; so
what is open is followed. Damage stays where it is: a game's text ends where the next one begins, whatever stands
before it. A word is understood as a whole or ends its game (`chess.pgn` finds the pawn move f3 in `Sf3`). Games are
filtered by rating, and all damage is counted.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

from chess_env.positions.heldout import heldout_hashes
from chess_env.positions.text_files import TextFile
from chess_env.rules.fen import parse_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, hash_batch, legal_actions_batch, status_batch
from chess_env.rules.san import ENGLISH, encoded, letters_of, read_moves

Place = Literal["this game", "another game", "no game"]
_HEADER = re.compile(r"\[\s*([A-Za-z0-9]\w*)")  # not "[%clk ...", which belongs to a comment
_WHOLE_HEADER = re.compile(r'\[\s*([A-Za-z0-9]\w*)\s+".*"\s*\]\s*$')
_COMMENT = re.compile(r"\{[^}]*\}")
_ANY_COMMENT = re.compile(r"(\{)[^}]*(\}?)|;.*", re.DOTALL)
_RESULTS = frozenset(["1-0", "0-1", "1/2-1/2", "*", "1/2", "1:0", "0:1", "1/2:1/2"])
# Other signs for the same, and signs without width.
_PLAIN = str.maketrans(
    {**dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"), "×": "x", "х": "x", "½": "1/2", "…": "...",
     **dict.fromkeys("\ufe0e\ufe0f\u200b\u2060\ufeff")}
)  # fmt: skip
_FIRST_MOVE = re.compile(r"\s*1\s*\.(?!\s*[.\d])")  # not "1... e5", which goes on after a comment
_SAN = r"(?:[^\W\d_a-z]{1,2}|[♔-♟]\ufe0e?)?[a-h]?[1-8]?[-x:]?[a-h][1-8]|O-O|0-0"
_ANY_MOVE = re.compile(rf"(?<!\w)(?:{_SAN})")
_MOVE = re.compile(rf"\s*(?:\d+\s*\.|{_SAN})")
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
        if not (self._headers or self._moves or _MOVE.match(text)):
            return False  # words in front of the first game
        begins = self._depth == 0 and self._moves_begin(text)
        if begins:
            self._begin()
        self._behind_headers = self._moves = True
        main_line = re.sub(r"\([^()]*\)", " ", text) if "(" in text else text
        self._played = self._played or _ANY_MOVE.search(main_line) is not None
        self._after_blank = False
        if "(" in text or ")" in text:
            for bracket in re.findall("[()]", text):
                self._depth = max(0, self._depth + (1 if bracket == "(" else -1))
        self._over = self._depth == 0 and text.rsplit(None, 1)[-1].translate(_PLAIN) in _RESULTS
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


def games_in(text: Iterable[str]) -> Iterator[str]:
    """The text of each game in lines: its headers and what follows up to the next game."""
    lines: list[str] = []
    where = GameLines()
    for raw in text:
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


_DECIDES_START = re.compile(r"\[\s*(FEN|SetUp|Variant)\b", re.IGNORECASE)
_LATER_MOVE = re.compile(r"\s*(?!0*1\s*\.)\d+\s*\.")

STANDARD = {"", "?", "-", *(name.lower() for name in chess.Board.aliases)}


@dataclasses.dataclass
class GameCounts:
    """Counts of games in a file.

    Attributes:
        games: games begun.
        used: games that gave a position.
        low_rated: left out, because a player's rating is below the limit or not given.
        variants: left out, because they are not standard chess.
        bad_starts: left out, because their start position is damaged, missing or illegal.
        illegal_moves: games with a move that is illegal, or may be two; what is before it is used.
        after_result: games with moves behind their result in the same line; what is before is used.
        truncated: games without a result at their end; all but their last move, which may be cut, is
            used.
        broken_headers: header lines that are damaged.
        unreadable: games with a word that is not understood as a whole; what is before it is used.
        unknown_letters: games of these, in which that word may be a move in piece letters of another language.
        other_letters: games that are read in piece letters of another language than English.
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
    unknown_letters: int = 0
    other_letters: int = 0
    held_out: int = 0
    ended_early: int = 0

    def line(self) -> str:
        """The counts that are not 0, for people."""
        found = {name: count for name, count in dataclasses.asdict(self).items() if count}
        text = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in found.items())
        return f"{text} (piece letters of another language?)" if self.unknown_letters else text


class Movetext(NamedTuple):
    """The main line of a game as it is written.

    Attributes:
        words: its moves, each understood as far as that it is one.
        ended: whether a result was read.
        goes_on: whether moves stand behind it.
        unreadable: whether the line is cut at a word that is not understood.
    """

    words: list[str]
    ended: bool
    goes_on: bool
    unreadable: bool


_TOKEN = re.compile(
    r"\{[^}]*(?:\}|\Z)|;[^\n]*|\[[^\]\n]*\]?|[()]|\n[ \t]*(?=\n)|(?P<number>\d+)\s*\.+"
    r"|[^\s(){};\[]+(?:(?<=[a-h][18])\([^\W\d_]\)[^\s(){};\[]*)?"
)
_LONGEST_WORD = 30  # so that what is remembered of words stays small
_SKIPPED = re.compile(r"(?!--\Z)[^\w]+|\d{1,3}|\$\d{1,3}|N|D|e\.?p\.?")


def read_movetext(text: str) -> Movetext:
    """The main line in what stands behind a game's headers: no comments, no variations.

    Behind an empty line it goes on where the next word is the number of the move that is due.
    """
    if not text.isascii():
        text = text.translate(_PLAIN)
    words: list[str] = []
    depth = plies = before = (
        0  # plies: by the last number that was read, with `before` words before it
    )
    ended = after_blank = False
    for found in _TOKEN.finditer(text):
        token = found[0]
        first = token[0]
        if first in "{;[":
            continue
        if first == "(":
            depth += 1
        elif first == ")":
            depth = max(0, depth - 1)
        elif first == "\n":
            if depth:
                break
            after_blank = len(words) > 0
        elif depth:
            continue
        elif found["number"]:
            at = 2 * int(found["number"][-4:]) + (token.count(".") > 1)
            if after_blank and at != plies + len(words) - before:
                break
            plies, before, after_blank = at, len(words), False
        elif token.rstrip(".,") in _RESULTS:
            ended = True
        elif len(token) < _LONGEST_WORD and letters_of(token) is not None:
            if ended or after_blank:
                return Movetext(words, ended, goes_on=ended, unreadable=False)
            words.append(token)
        elif not ended and not _SKIPPED.fullmatch(token):
            # The last word of a file that is cut may be half a move.
            return Movetext(words, ended, False, unreadable=found.end() < len(text.rstrip()))
    return Movetext(words, ended, goes_on=False, unreadable=False)


_TAG = re.compile(r'\[\s*([A-Za-z0-9][\w+#=:-]*)\s+"((?:[^"\\]|\\.)*)"\s*\]\s*')


def read_headers(lines: list[str]) -> tuple[dict[str, str], int, list[str]]:
    """(values by name in lower case, number of lines that they take, lines that begin as headers and are none)."""
    headers: dict[str, str] = {}
    broken, count = [], 0
    for line in lines:
        if line.strip() and not line.startswith(("[", ";", "%")):
            break
        count += 1
        if line.startswith("["):
            at = 0
            while tag := _TAG.match(line, at):
                headers[tag[1].lower()] = tag[2]
                at = tag.end()
            if at == len(line) or line[at] == ";":
                continue
            # A quotation mark in a name is no harm, unless there are several headers.
            loose = chess.pgn.TAG_REGEX.match(line)
            if loose is None or _HEADER.search(loose[2]):
                broken.append(line)
            else:
                headers[loose[1].lower()] = loose[2]
    return headers, count, broken


def read_positions(
    file: TextFile, *, min_rating: int, skip_plies: int, counts: GameCounts
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
    held_out = heldout_hashes()
    for text in games_in(file):
        counts.games += 1
        game = _parse(text, min_rating, counts)
        if game is None:
            yield np.zeros((0, 8), np.uint64), np.zeros(0, np.int16)
            continue
        positions, played = game[0][skip_plies:], game[1][skip_plies:]
        known = np.array([key in held_out for key in hash_batch(positions).tolist()], np.bool_)
        counts.held_out += int(known.sum())
        _, num_legal = legal_actions_batch(positions)
        wanted = ~known & (num_legal >= 2) & (status_batch(positions) == ONGOING)
        counts.used += bool(wanted.any())
        yield positions[wanted], played[wanted]
    counts.ended_early = int(bool(file.ended_early))


def _parse(
    text: str, min_rating: int, counts: GameCounts
) -> tuple[Positions, NDArray[np.int16]] | None:
    """(positions, actions of the main line) of a game, or None where it is left out or has no move."""
    lines = text.splitlines(keepends=True)
    headers, behind, broken = read_headers(lines)
    counts.broken_headers += len(broken)
    if headers.get("variant", "").strip().lower() not in STANDARD:
        counts.variants += 1
        return None
    bad_start = any(_DECIDES_START.match(line) for line in broken)
    bad_start |= _LATER_MOVE.match(text) is not None  # the end of a game whose beginning is lost
    if bad_start or (headers.get("setup") == "1" and "fen" not in headers):
        counts.bad_starts += 1
        return None
    if not _rated(headers, min_rating):
        counts.low_rated += 1
        return None
    try:
        start = _start(headers.get("fen", chess.STARTING_FEN))
    except ValueError:
        counts.bad_starts += 1
        return None
    if start is None:
        counts.variants += 1
        return None
    written = read_movetext("".join(lines[behind:]))
    read = read_moves(start, written.words)
    num_moves = len(read.actions)
    counts.other_letters += read.letters not in (None, ENGLISH)
    counts.after_result += written.goes_on
    if num_moves < len(written.words):
        not_understood = read.letters is None or encoded(written.words[num_moves], ENGLISH) is None
        counts.unreadable += not_understood
        counts.unknown_letters += not_understood
        counts.illegal_moves += not not_understood
    elif written.unreadable:
        counts.unreadable += 1
    elif not written.ended:
        counts.truncated += 1
        num_moves -= 1
    return (read.positions[:num_moves], read.actions[:num_moves]) if num_moves > 0 else None


@lru_cache(maxsize=64)
def _start(fen: str) -> Positions | None:
    """uint64 [8]: the position, without castling rights that cannot be; None where it is one of Chess960."""
    board = chess.Board(fen)
    return None if board.has_chess960_castling_rights() else parse_fen(board.fen())


def _rated(headers: dict[str, str], min_rating: int) -> bool:
    for name in ("whiteelo", "blackelo"):
        text = headers.get(name, "").strip()
        rating = int(text) if re.fullmatch(r"[0-9]{1,5}", text) else -1
        if min_rating > 0 and rating < min_rating:
            return False
    return True
