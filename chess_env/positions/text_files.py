"""Lines of a text file of others, packed or not, and those of them that are left out.

The first bytes of a file say what it is, whatever it is called.
"""

from __future__ import annotations

import codecs
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_CHUNK_BYTES = 1 << 12  # of a packed file at once: bounds what a small one can unpack to
_PACKED = {b"\x28\xb5\x2f\xfd": "zst", b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
_OTHERS = {b"PK\x03\x04": "zip", b"7z\xbc\xaf": "7z", b"Rar!": "rar", b"\x04\x22\x4d\x18": "lz4"}
_SKIPPABLE_ZST = b"\x2a\x4d\x18"  # behind a byte 5x: the first frame of pzstd
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_HEAD_BYTES = 512


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    """Signs such as the half of a draw, of a file that is not UTF-8; its letters become U+FFFD."""
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    is_sign = error.encoding == "utf-8" and max(wrong) < 0xC0
    return wrong.decode("cp1252", "replace") if is_sign else "\ufffd", error.end


codecs.register_error("chess_env.cp1252", _as_cp1252)


class TextFile:
    """The lines of a file, from its beginning to its end or to where it is damaged.

    Plain text or packed by zstd, gzip, bzip2 or xz; UTF-8, UTF-16, UTF-32, or signs of Latin-1 (cp1252).

    Args:
        path: of the file.
        what: it holds, for messages.

    Raises:
        ValueError: it cannot be opened, or is no text.
        ModuleNotFoundError: packed by zstd without the package zstandard; the message says how to install it.

    Attributes:
        size_bytes: of the file on disk.
        ended_early: why the file could not be read to its end; "" where it could.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.ended_early = ""
        self._name = f"{what} {str(path)!r}"
        try:
            self._file: Any = path.open("rb")
        except OSError as error:
            raise ValueError(
                f"{self._name} cannot be read ({error.strerror}): give a text file, plain or packed (.zst, .gz, "
                ".bz2, .xz)"
            ) from error
        try:
            self.size_bytes = os.fstat(self._file.fileno()).st_size
            raw = io.BufferedReader(self._unpacked()) if self._kind() else self._file
            self._text = io.TextIOWrapper(raw, self._encoding(raw), errors="chess_env.cp1252")
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[str]:
        return iter(self._text)

    @property
    def bytes_read(self) -> int:
        """How far the file on disk has been read."""
        return int(self._file.tell())

    def close(self) -> None:
        """Closes the file."""
        self._text.close()
        self._file.close()

    def _kind(self) -> str:
        """How the file is packed; "" for a plain one."""
        head = self._file.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        for start, kind in _OTHERS.items():
            if head.startswith(start):
                raise ValueError(
                    f"{self._name} is a .{kind} file: unpack it and give the text file in it"
                )
        if head[1:4] == _SKIPPABLE_ZST and head[0] >> 4 == 5:
            return "zst"
        return next((kind for start, kind in _PACKED.items() if head.startswith(start)), "")

    def _unpacked(self) -> _Unpacked:
        kind = self._kind()
        if kind == "zst":
            try:
                import zstandard
            except ImportError as error:
                raise ModuleNotFoundError(
                    f"{self._name} is packed, and reading it needs the package zstandard ({error}): "
                    'run pip install -e ".[pgn]" in the clone, or unpack the file'
                ) from error
            unpacker = zstandard.ZstdDecompressor()
            return _Unpacked(self, kind, unpacker.decompressobj, zstandard.ZstdError)
        if kind == "gz":
            import zlib

            return _Unpacked(self, kind, lambda: zlib.decompressobj(31), zlib.error)
        if kind == "bz2":
            import bz2

            return _Unpacked(self, kind, bz2.BZ2Decompressor, OSError)
        import lzma

        return _Unpacked(self, kind, lzma.LZMADecompressor, lzma.LZMAError)

    def _encoding(self, raw: Any) -> str:
        head = raw.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        for mark, encoding in _MARKS.items():
            if head.startswith(mark):
                return encoding
        if len(head) < 4 * head.count(0):
            # Without a mark, but every other byte of ASCII is 0.
            even, odd = any(head[0::2]), any(head[1::2])
            if even != odd:
                return "utf-16-le" if even else "utf-16-be"
        if 10 * sum(byte < 32 and byte not in b"\t\n\f\r" for byte in head) > len(head):
            raise ValueError(f"{self._name} is no text file: it begins with {head[:16]!r}")
        return "utf-8"


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a file; what is readable of a damaged one, and why it ended.

    Args:
        owner: the file; its `ended_early` is set.
        kind: of the packing.
        begin: makes what unpacks one frame.
        error: that it raises on damage.
    """

    def __init__(
        self, owner: TextFile, kind: str, begin: Callable[[], Any], error: type[Exception]
    ) -> None:
        self._owner, self._kind, self._begin, self._error = owner, kind, begin, error
        self._frame: Any = None
        self._packed, self._ready = b"", memoryview(b"")
        self._began = False

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Number of bytes put into `buffer`; 0 at the end.

        Raises:
            ValueError: the file cannot be unpacked from its beginning.
        """
        while not self._ready and not self._owner.ended_early:
            self._packed = self._packed or self._owner._file.read(_CHUNK_BYTES)
            if not self._packed:
                if self._frame is not None:
                    self._owner.ended_early = f"the .{self._kind} ends in the middle of a frame"
                break
            if self._frame is None:
                self._packed = self._packed.lstrip(b"\0")  # of a file padded to whole blocks
            if self._packed:
                self._unpack()
        piece = self._ready[: len(buffer)]
        buffer[: len(piece)] = piece
        self._ready = self._ready[len(piece) :]
        return len(piece)

    def _unpack(self) -> None:
        self._frame = self._frame or self._begin()
        try:
            self._ready = memoryview(self._frame.decompress(self._packed))
        except (self._error, EOFError) as error:
            if not self._began:
                more = ", and unpack one that wants more memory with `zstd --long=31 -d`"
                raise ValueError(
                    f"{self._owner._name} cannot be unpacked as .{self._kind} ({error}): fetch a damaged one again"
                    f"{more if self._kind == 'zst' else ''}"
                ) from error
            self._owner.ended_early = f"the .{self._kind} is damaged ({error})"
            return
        self._began = self._began or len(self._ready) > 0
        # Files may be several frames, one behind the other.
        at_end = self._frame.eof
        self._packed = self._frame.unused_data if at_end else b""
        self._frame = None if at_end else self._frame


FIRST_FEW = 5
"""Lines that are named one by one."""


class Line(NamedTuple):
    """One line that was left out.

    Attributes:
        number: in the file, from 1 on.
        kind: of the reason, under which it is counted.
        reason: what is wrong in this line.
    """

    number: int
    kind: str
    reason: str


class LeftOut:
    """Counts lines by the kind of the reason, and keeps the first few."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: list[Line] = []

    def add(self, lines: Iterable[Line]) -> None:
        """Adds some lines that stand behind all that were added before."""
        ordered = sorted(lines)
        self.counts.update(line.kind for line in ordered)
        self.first += ordered[: FIRST_FEW - len(self.first)]

    @property
    def total(self) -> int:
        """Number of lines."""
        return self.counts.total()

    def summary(self) -> str:
        """The counts in words, the largest first; "" where nothing was left out."""
        return ", ".join(f"{kind} {count:,}" for kind, count in self.counts.most_common())

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "total": self.total,
            "counts": dict(self.counts),
            "first": [line._asdict() for line in self.first],
        }
