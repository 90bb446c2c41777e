"""The record of a run: metrics.jsonl first, trackers as mirrors of it, one writer at a time.

Every metric name is defined in docs/metrics.md; a test compares that page with the code.
"""

from __future__ import annotations

import itertools
import json
import math
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from algorithms.run_folder.atomic_files import (
    METRICS_FILE,
    RUN_WRITES,
    RunFolderError,
    lock_folder,
    open_file,
    parse_json,
    replace_file,
)
from algorithms.run_folder.trackers import Mirror, make_tracker

MAX_STEP = 2**53  # floats count no further
# Squares and sums of what is smaller stay finite; no quantity of a run comes near it.
LARGEST_VALUE = 1e100


def record_lines(path: Path) -> Iterator[str]:
    """The lines of a file of JSON lines, one by one; none where it is missing.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no UTF-8, or is no file; the message names it.
    """
    before = 0
    try:
        with open_file(path) as file:
            for line in file:
                yield line.decode("utf-8")
                before += len(line)
    except FileNotFoundError:
        return
    except UnicodeDecodeError as error:
        at = before + error.start
        raise ValueError(f"{path} is no UTF-8 text (byte {at}): it is damaged") from None


def rows_of(lines: Iterable[str], name: str) -> Iterator[tuple[Any, str]]:
    """(row, its line) for each line of a record; a last line cut by a kill is left out.

    Args:
        lines: of the file with their ends, each a flat object.
        name: of the file, for messages.

    Raises:
        ValueError: another line is not JSON; the message names its number.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield _row(line), line
        except ValueError:
            # Only the last line can lack its end, and a part of a flat object has no brace there.
            if not line.endswith("\n") and "}" not in line:
                return
            raise ValueError(
                f"{name}, line {number} is damaged: {line[:80]!r}; take the line out"
            ) from None


def _row(line: str) -> Any:
    """The values in a line; older versions wrote a checksum at its end."""
    row = parse_json(line)
    if isinstance(row, dict):
        row.pop("crc32", None)
    return row


def checked_row(row: object, last_step: int, where: str) -> dict[str, float | None]:
    """The row, its values float, or None for null and beyond `LARGEST_VALUE`.

    Args:
        row: from `rows_of`.
        last_step: of the row before it; -1 for the first.
        where: file and line, for messages.

    Raises:
        ValueError: it is no flat object of numbers, or not later than the last.
    """
    values = row if isinstance(row, dict) else {}
    for name, value in values.items():
        if value is not None and not isinstance(value, int | float):
            raise ValueError(
                f"{where}: {name[:80]!r} is {str(value)[:40]!r}, expected a number or null"
            )
    step_of(row, last_step, where)
    # A name is one object in all rows.
    return {sys.intern(key): _finite(value) for key, value in values.items()}


def step_of(row: object, last_step: int, where: str) -> int:
    """The `step` of a row; arguments and errors as of `checked_row`."""
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {str(row)[:40]!r}, expected an object of metrics")
    step = row.get("step")
    number = _finite(step) if isinstance(step, int | float) else None
    if number is None or not last_step < number < MAX_STEP or number != int(number):
        raise ValueError(
            f"{where}: step is {str(step)[:40]}, expected a whole number above {last_step}: "
            "were two runs written into one file?"
        )
    return int(number)


def _finite(value: float | None) -> float | None:
    # Compared as it is: a whole number may be too long for a float.
    return float(value) if value is not None and abs(value) <= LARGEST_VALUE else None


ANEW = -1
"""The `resume_at` of a run that starts again in its folder: no row is kept."""


class RunLog:
    """Appends rows to `run_dir`/metrics.jsonl, each flushed, and mirrors them to a tracker.

    Args:
        run_dir: the run folder; made where missing.
        track: "wandb", "tensorboard" or None.
        config: shown to the tracker beside the run.
        resume_at: keep only rows up to this step (rows after the checkpoint are played again);
            None starts a new record.

    Raises:
        RunFolderError: another process writes this run, or the folder holds a run already.
        ModuleNotFoundError: the tracker is not installed; the message says how to install it.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        track: str | None = None,
        config: Mapping[str, Any] | None = None,
        resume_at: int | None = None,
    ) -> None:
        self.path = run_dir / METRICS_FILE
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(
                f"run folder {str(run_dir)!r} cannot be made ({error.strerror}): choose another --run-dir"
            ) from None
        self._lock = lock_folder(run_dir, written=RUN_WRITES)
        try:
            if resume_at is not None:
                _cut(self.path, resume_at)
            elif _holds_a_run(self.path):
                raise RunFolderError(
                    f"{run_dir} holds a run already: continue it with --resume "
                    f"{shlex.quote(str(run_dir))}, or choose another --run-dir"
                )
            kept = ANEW if resume_at is None else resume_at
            tracker = make_tracker(track, run_dir, config or {}, kept)
            self._mirror = None
            if tracker is not None:
                self._mirror = Mirror(tracker, _between(self.path, tracker.last_step, kept))
            # Without a buffer: a row that a full disk refuses must not be written a second time later.
            self._file = self.path.open("ab", buffering=0)
        except BaseException:
            self._lock.close()
            raise

    def write(self, row: Mapping[str, float]) -> None:
        """Appends one row; NaN and infinity are written as null, which JSON can hold.

        Raises:
            RunFolderError: it could not be written whole; the run can go on from its last checkpoint.
        """
        clean = {k: v if math.isfinite(v) else None for k, v in row.items()}
        self._append(f"{json.dumps(clean)}\n".encode())
        if self._mirror is not None:
            self._mirror.write({k: v for k, v in clean.items() if v is not None})
            self._say_trouble()

    def _say_trouble(self) -> None:
        """Leaves a tracker that is not used again, with a warning."""
        if self._mirror is not None and self._mirror.trouble is not None:
            warnings.warn(
                f"tracker stopped ({self._mirror.trouble}); {self.path} stays complete",
                stacklevel=3,
            )
            self._mirror = None

    def _append(self, line: bytes) -> None:
        try:
            while line:  # a disk that fills up takes a part, and refuses the rest
                line = line[self._file.write(line) :]
        except OSError as error:
            folder = self.path.parent
            raise RunFolderError(
                f"{self.path} could not be written ({error.strerror}): free some space there, then "
                f"continue the run with --resume {shlex.quote(str(folder))}"
            ) from error

    def close(self) -> None:
        """Closes the record and the tracker, and frees the run folder for another process.

        A second call does nothing.
        """
        self._file.close()
        if self._mirror is not None:
            self._mirror.close()
            self._say_trouble()
            self._mirror = None
        self._lock.close()


def _holds_a_run(record: Path) -> bool:
    """Whether something was written; a run that was killed before its first row leaves an empty file."""
    written = record.exists() and record.stat().st_size > 0
    return (
        written
        or any(record.parent.glob("checkpoints/update-*"))
        or any(record.parent.glob("snapshots/update-*"))
    )


def _cut(path: Path, step: int) -> None:
    """Drops the rows after `step`."""

    def kept() -> Iterator[bytes]:
        last = -1
        for number, (row, line) in enumerate(rows_of(record_lines(path), str(path)), start=1):
            last = step_of(row, last, f"{path}, line {number}")
            if last <= step:
                # A full disk may have refused the last line its end.
                yield (line.removesuffix("\n") + "\n").encode()

    replace_file(path, kept())


def _between(path: Path, after: int, last: int) -> Iterator[dict[str, float]]:
    """The rows after step `after`, up to that of step `last`, without what is null."""
    if after < last:
        rows = (row for row, _ in rows_of(record_lines(path), str(path)))
        for row in itertools.takewhile(lambda row: row["step"] <= last, rows):
            if row["step"] > after:
                yield {name: value for name, value in row.items() if value is not None}
