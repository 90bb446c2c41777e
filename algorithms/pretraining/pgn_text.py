"""Games as text from a .pgn or .pgn.zst file of any size, read once and in constant memory.

Where a game ends is decided line by line. A comment may hold anything, a line that looks like a header among it;
so what is open is followed. Damage stays where it is: a game's text ends where the next one begins, whatever stands
before it.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

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

MAX_LINE_CHARS = 65_536

MAX_GAME_CHARS = 1_000_000
"""The rest of a longer game is dropped: a file without line ends or headers must not fill the memory."""

# Given to zstd at once: four bytes may unpack to a block of 128 KiB, and all of it comes at once.
_CHUNK_BYTES = 64

MAX_WINDOW_BYTES = 2**27
"""What a packed file may ask to be kept in memory: all that the program zstd takes without being told otherwise."""

_TRUSTED_BYTES, _MOST_TIMES = 2**20, 200
"""What unpacks to more bytes than the first, and to more than so many times its size, is not read on."""

_BYTE_ORDER_MARK = "\ufeff"  # also in the middle, of files that were put one behind the other


class GameLines:
    """Assigns each line of a file to a game; the lines come in their order.

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
        size, where = 0, GameLines()
        while line := self._text.readline(MAX_LINE_CHARS):
            line = line.removeprefix(_BYTE_ORDER_MARK)
            place = where.place(line)
            if place == "no game":
                continue
            if place == "another game":
                yield "".join(lines)
                lines, size = [], 0
            size += len(line)
            if size <= MAX_GAME_CHARS:
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
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._error = zstandard.ZstdError
        self._file, self._path, self._owner = file, path, owner
        self._frame: Any = None
        self._packed = self._unpacked = b""
        self._given = 0  # of the unpacked bytes: to cut them off would copy the rest every time
        self._unpacked_bytes = 0

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Number of bytes put into `buffer`; 0 at the end.

        Raises:
            ValueError: the file is not zstd at all.
        """
        while self._given == len(self._unpacked) and not self._owner.ended_early:
            self._packed = self._packed or self._file.read(_CHUNK_BYTES)
            if not self._packed:
                if self._frame is not None:
                    self._owner.ended_early = "the .zst ends in the middle of a frame"
                break
            self._unpack()
        piece = memoryview(self._unpacked)[self._given : self._given + len(buffer)]
        buffer[: len(piece)] = piece
        self._given += len(piece)
        return len(piece)

    def _unpack(self) -> None:
        if self._frame is None:
            self._frame = self._unpacker.decompressobj()
        try:
            self._unpacked, self._given = self._frame.decompress(self._packed), 0
        except self._error as error:
            if "memory" in str(error):  # the window that the frame asks for
                raise ValueError(
                    f"games {str(self._path)!r} are packed with a window of more than {MAX_WINDOW_BYTES // 2**20} MiB: "
                    "unpack them with `zstd --long=31 -d` and name the file .pgn"
                ) from error
            if not self._unpacked_bytes:
                raise ValueError(
                    f"games {str(self._path)!r} are not packed by zstd ({error}): name a plain "
                    "file .pgn, and fetch a damaged one again"
                ) from error
            self._owner.ended_early = f"the .zst is damaged ({error})"
            return
        self._unpacked_bytes += len(self._unpacked)
        if self._unpacked_bytes > max(_TRUSTED_BYTES, _MOST_TIMES * self._file.tell()):
            self._owner.ended_early = (
                f"the .zst unpacks to more than {_MOST_TIMES} times its size, as no games do"
            )
            self._unpacked = b""
        if self._frame.eof:  # files may be several frames, one behind the other
            self._packed, self._frame = self._frame.unused_data, None
        else:
            self._packed = b""
