"""The record of a run: metrics.jsonl first, trackers as mirrors of it, one writer at a time.

Every metric name is defined in docs/metrics.md; a test compares that page with the code.
"""

from __future__ import annotations

import math
import shlex
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algorithms.run_folder.files import (
    METRICS_FILE,
    RunFolderError,
    lock_folder,
    read_record,
    replace_file,
)
from algorithms.run_folder.rows import closed_row, rows_of
from algorithms.run_folder.trackers import Mirror, make_tracker

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
        self._lock = lock_folder(run_dir)
        try:
            if resume_at is not None:
                _cut(self.path, resume_at)
            elif _holds_a_run(self.path):
                raise RunFolderError(
                    f"{run_dir} holds a run already: continue it with --resume "
                    f"{shlex.quote(str(run_dir))}, or choose another --run-dir"
                )
            tracker = make_tracker(track, run_dir, config or {})
            self._mirror = None if tracker is None else Mirror(tracker)
            # Without a buffer: a row that a full disk refuses must not be written a second time later.
            self._file = self.path.open("ab", buffering=0)
        except BaseException:
            self._lock.close()
            raise

    def write(self, row: Mapping[str, float]) -> None:
        """Appends one row with its checksum; NaN and infinity are written as null, which JSON can hold.

        Raises:
            RunFolderError: it could not be written whole; the run can go on from its last checkpoint.
        """
        clean = {k: v if math.isfinite(v) else None for k, v in row.items()}
        self._append(closed_row(clean))
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
    rows = rows_of(read_record(path), str(path))
    if rows.altered:
        raise RunFolderError(rows.alteration(path))
    kept = [line for row, line in zip(rows.values, rows.lines, strict=True) if row["step"] <= step]
    # A full disk may have refused the last line its end.
    replace_file(path, "".join(line.removesuffix("\n") + "\n" for line in kept).encode())
