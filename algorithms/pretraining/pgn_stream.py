"""Games as text from a .pgn or .pgn.zst file of any size, read once and in constant memory.

Damage stays where it is: a game's text ends where the next one begins, whatever stands before it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from algorithms.pretraining.pgn_lines import GameLines

MAX_LINE_CHARS = 65_536
MAX_GAME_CHARS = 1_000_000
"""What a game has beyond it is dropped: a file without line ends or headers must not fill the memory."""

# Given to zstd at once: four bytes may unpack to a block of 128 KiB, and all of it comes at once.
_CHUNK_BYTES = 64
_BYTE_ORDER_MARK = "\ufeff"  # also in the middle, of files that were put one behind the other


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
        # Long windows, as zstd's --long=31 writes them, take up to 2 GiB of memory.
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=2**31)
        self._error = zstandard.ZstdError
        self._file, self._path, self._owner = file, path, owner
        self._frame: Any = None
        self._packed = self._unpacked = b""
        self._given = 0  # of the unpacked bytes: to cut them off would copy the rest every time
        self._any = False

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
            if not self._any:
                raise ValueError(
                    f"games {str(self._path)!r} are not packed by zstd ({error}): name a plain "
                    "file .pgn, and fetch a damaged one again"
                ) from error
            self._owner.ended_early = f"the .zst is damaged ({error})"
            return
        self._any = self._any or bool(self._unpacked)
        if self._frame.eof:  # files may be several frames, one behind the other
            self._packed, self._frame = self._frame.unused_data, None
        else:
            self._packed = b""
