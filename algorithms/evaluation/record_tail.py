"""The end of a record that grows: rows are read once, and a line that is being written waits for its end."""

from __future__ import annotations

import os
from pathlib import Path

from algorithms.run_folder.files import METRICS_FILE
from algorithms.run_folder.reading import LONGEST_LINE_BYTES, open_file
from algorithms.run_folder.rows import checked_row, rows_of

Row = dict[str, float | None]


class RecordTail:
    """Reads the rows of a run's metrics.jsonl as they come.

    Args:
        run_dir: the run folder; the record may be missing yet.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / METRICS_FILE
        self._file: tuple[int, int] | None = None  # device and inode
        self._offset, self._lines, self._last_step = 0, 0, -1
        self._size = 0

    @property
    def waits(self) -> bool:
        """Whether the last call left a part of the record to the next one."""
        return self._offset < self._size

    def read(self, most_bytes: int = -1) -> tuple[list[Row], bool]:
        """(rows since the last call; whether they begin anew, as the record was cut or replaced since then).

        A run that goes on drops the rows after its checkpoint, so its record is replaced by a shorter one.

        Args:
            most_bytes: of the record, more than `LONGEST_LINE_BYTES`; the next call goes on from there. -1 for all.

        Raises:
            ValueError: the record is a symbolic link or no file, or a row is damaged; the message names the line. The
                next call reads from the same place.
            OSError: it cannot be read.
        """
        if self._path.is_symlink():
            raise ValueError(
                f"{self._path} is a symbolic link and is not followed: copy the file here"
            )
        try:
            with open_file(self._path) as file:
                now = os.fstat(file.fileno())
                anew = self._file not in (None, (now.st_dev, now.st_ino))
                anew = anew or now.st_size < self._offset
                if anew:
                    self._forget()
                file.seek(self._offset)
                data = file.read(most_bytes)
        except FileNotFoundError:
            anew = self._file is not None
            self._forget()
            return [], anew
        whole = data[: data.rfind(b"\n") + 1]
        rows = self._parsed(whole, len(data) - len(whole))
        self._file, self._offset = (now.st_dev, now.st_ino), self._offset + len(whole)
        self._size = now.st_size
        self._lines += len(rows)
        if rows:
            self._last_step = int(rows[-1]["step"] or 0)
        return rows, anew

    def _forget(self) -> None:
        self._file, self._offset, self._lines, self._last_step, self._size = None, 0, 0, -1, 0

    def _parsed(self, data: bytes, waiting: int) -> list[Row]:
        name = f"{self._path}, after line {self._lines:,}" if self._lines else str(self._path)
        if waiting > LONGEST_LINE_BYTES:
            raise ValueError(
                f"{name}, is damaged: a line has more than {LONGEST_LINE_BYTES:,} bytes"
            )
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}, is no UTF-8 text (byte {error.start}): it is damaged"
            ) from None
        found, last_step = [], self._last_step
        for number, row in enumerate(rows_of(text, name).values, start=1):
            found.append(checked_row(row, last_step, f"{name}, line {number}"))
            last_step = int(found[-1]["step"] or 0)
        return found
