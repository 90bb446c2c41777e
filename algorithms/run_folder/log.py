"""The record of a run: metrics.jsonl first, trackers as mirrors of it, one writer at a time.

Every metric name is defined in docs/metrics.md; a test compares that page with the code.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import socket
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from algorithms.run_folder.trackers import make_tracker

METRICS_FILE = "metrics.jsonl"


class RunFolderError(RuntimeError):
    """The run folder cannot be used; the message says why and what to do."""


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
            elif self.path.exists():
                raise RunFolderError(
                    f"{run_dir} holds a run already: continue it with --resume "
                    f"{shlex.quote(str(run_dir))}, or choose another --run-dir"
                )
            self._tracker = make_tracker(track, run_dir, config or {})
            self._file = self.path.open("a", encoding="utf-8")
        except BaseException:
            self._lock.close()
            raise

    def write(self, row: Mapping[str, float]) -> None:
        """Appends one row; NaN and infinity are written as null, which JSON can hold."""
        clean = {k: v if math.isfinite(v) else None for k, v in row.items()}
        self._file.write(json.dumps(clean) + "\n")
        self._file.flush()
        if self._tracker is not None:
            try:
                self._tracker.write({k: v for k, v in clean.items() if v is not None})
            # Whatever a third party's tracker raises, the run and its record go on.
            except Exception as error:
                warnings.warn(
                    f"tracker stopped ({error!r}); {self.path} stays complete", stacklevel=2
                )
                self._tracker = None

    def close(self) -> None:
        """Closes the record and the tracker, and frees the run folder for another process.

        A second call does nothing.
        """
        self._file.close()
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.close()
        self._lock.close()


def read_rows(path: Path) -> list[dict[str, float | None]]:
    """Rows of a metrics.jsonl; a last line cut by a kill is left out.

    Raises:
        ValueError: another line is not JSON; the message names its number.
    """
    return [row for row, _ in _rows(path)]


def _rows(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            yield json.loads(line), line
        except ValueError as error:
            if number == len(lines) and not line.endswith("\n"):
                return
            raise ValueError(
                f"{path}, line {number} is damaged: {line[:80]!r}; take the line out, or begin a new run"
            ) from error


def _cut(path: Path, step: int) -> None:
    """Drops the rows after `step`, in one atomic replacement."""
    kept = [line for row, line in _rows(path) if row["step"] <= step] if path.exists() else []
    partial = path.with_suffix(".partial")
    partial.write_text("".join(kept), encoding="utf-8")
    os.replace(partial, path)


def lock_folder(folder: Path) -> IO[str]:
    """An open file that holds the folder's lock until it is closed or the process ends.

    Raises:
        RunFolderError: another process holds it.
    """
    file = (folder / ".lock").open("a+", encoding="utf-8")
    try:
        import fcntl
    except ImportError:  # Windows: no advisory locks, so two writers are not noticed there
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        raise RunFolderError(
            f"{folder} is being written by {owner}: wait for it, or choose another folder"
        ) from error
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    return file
