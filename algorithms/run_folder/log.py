"""The record of a run: metrics.jsonl first, trackers as mirrors of it, one writer at a time.

Every metric name is defined in docs/metrics.md; a test compares that page with the code.
"""

from __future__ import annotations

import json
import math
import shlex
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algorithms.run_folder.files import (
    METRICS_FILE,
    RunFolderError,
    json_lines,
    lock_folder,
    read_record,
    replace_file,
)
from algorithms.run_folder.trackers import make_tracker

ANEW = -1
"""The `resume_at` of a run that begins once more in its folder: no row is kept."""


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
            self._tracker = make_tracker(track, run_dir, config or {})
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
        self._append(json.dumps(clean).encode() + b"\n")
        if self._tracker is not None:
            try:
                self._tracker.write({k: v for k, v in clean.items() if v is not None})
            # Whatever a third party's tracker raises, the run and its record go on.
            except Exception as error:
                warnings.warn(
                    f"tracker stopped ({error!r}); {self.path} stays complete", stacklevel=2
                )
                self._tracker = None

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
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.close()
        self._lock.close()


def _holds_a_run(record: Path) -> bool:
    """Whether something was written; a run that was killed before its first row leaves an empty file."""
    written = record.exists() and record.stat().st_size > 0
    return written or any((record.parent / "checkpoints").glob("update-*"))


def _cut(path: Path, step: int) -> None:
    """Drops the rows after `step`."""
    kept = [line for row, line in json_lines(read_record(path), str(path)) if row["step"] <= step]
    replace_file(path, "".join(kept).encode())
