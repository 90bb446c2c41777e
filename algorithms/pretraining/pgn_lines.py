"""Where one game of a PGN file ends and another begins, line by line.

A comment may hold anything, a line that looks like a header among it; so what is open is followed.
"""

from __future__ import annotations

import re
from typing import Literal

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


class GameLines:
    """Says of each line of a file which game it belongs to; the lines come in their order.

    Another game begins at a header that stands behind moves, at moves behind a result, at move 1
    where there are moves already, and without headers at moves behind an empty line. Where a header
    is not due, in the middle of moves or of a comment, it must be whole to be taken for one.
    """

    def __init__(self) -> None:
        self._at_start, self._escaped, self._in_comment = True, False, False
        self._begin()

    def _begin(self) -> None:
        self._headers = self._event = False
        self._behind_headers = self._moves = self._played = False
        self._over = self._after_blank = False
        self._depth = 0

    def place(self, line: str) -> Place:
        """Where the line belongs: "no game" where it is only around the games.

        Args:
            line: with its line end; a very long one may come in several pieces.
        """
        first_piece, self._at_start = self._at_start, line.endswith("\n")
        if first_piece:
            self._escaped = line.startswith("%") and not self._in_comment
        if self._escaped:
            return "no game"
        name = self._header(line) if first_piece else None
        begins = self._take_text(line, first_piece) if name is None else self._take_header(name)
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

    def _take_text(self, line: str, first_piece: bool) -> bool:
        in_comment = self._in_comment
        text = self._without_comments(line)
        if line.isspace() and not in_comment:
            # An empty line ends the moves, and with them a variation that was never closed.
            self._after_blank, self._depth = self._behind_headers, 0
        if not text or text.isspace():
            self._behind_headers |= self._headers and not line.isspace()
            return False
        begins = first_piece and self._depth == 0 and self._moves_begin(text)
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
