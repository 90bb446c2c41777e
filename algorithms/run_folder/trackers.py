"""Trackers that mirror metrics.jsonl: Weights & Biases and TensorBoard."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol


class Tracker(Protocol):
    """A tracker that is shown each row after metrics.jsonl has it."""

    def write(self, row: Mapping[str, float]) -> None:
        """Shows one row, whose `step` is the update."""

    def close(self) -> None:
        """Flushes and ends the tracker's run."""


class Mirror:
    """Shows rows to a tracker in a thread of its own: neither what it raises nor how long it takes stops the run.

    A tracker that has raised, or that `most_waiting` rows wait for, is not used again.

    Args:
        tracker: was made in the thread of the caller.
        most_waiting: rows that may wait for it, at least 1.
        most_s: seconds that its end may take.

    Attributes:
        trouble: why the tracker is not used again; None while it is.
    """

    def __init__(self, tracker: Tracker, most_waiting: int = 256, most_s: float = 60.0) -> None:
        self.trouble: str | None = None
        self._tracker, self._most_s = tracker, most_s
        self._rows: queue.Queue[Mapping[str, float] | None] = queue.Queue(most_waiting)
        self._thread = threading.Thread(target=self._show, name="tracker", daemon=True)
        self._thread.start()

    def write(self, row: Mapping[str, float]) -> None:
        """Hands one row over and returns at once."""
        if self.trouble is None:
            try:
                self._rows.put_nowait(row)
            except queue.Full:
                self.trouble = f"it hangs, and {self._rows.maxsize} rows wait for it"

    def close(self) -> None:
        """Waits until the tracker has been shown what is left, and has ended."""
        if self.trouble is not None:
            return
        with contextlib.suppress(queue.Full):  # then it hangs, which the next line finds
            self._rows.put(None, timeout=self._most_s)
        self._thread.join(self._most_s)
        if self._thread.is_alive():
            self.trouble = f"it did not end within {self._most_s:g} s"

    def _show(self) -> None:
        try:
            while (row := self._rows.get()) is not None:
                self._tracker.write(row)
                if self.trouble is not None:
                    return
            self._tracker.close()
        # Whatever a third party's tracker raises, the run and its record go on.
        except Exception as error:
            self.trouble = repr(error)


def make_tracker(track: str | None, run_dir: Path, config: Mapping[str, Any]) -> Tracker | None:
    """The tracker that `track` names, started; None for None.

    Args:
        track: "wandb", "tensorboard" or None.
        run_dir: the run folder.
        config: shown beside the run.

    Raises:
        ValueError: there is no such tracker.
        ModuleNotFoundError: it is not installed; the message says how to install it.
    """
    if track is None:
        return None
    trackers: dict[str, Callable[[Path, Mapping[str, Any]], Tracker]] = {
        "wandb": _Wandb,
        "tensorboard": _TensorBoard,
    }
    if track not in trackers:
        raise ValueError(f"track is {track!r}: set it to {' or '.join(trackers)}")
    try:
        return trackers[track](run_dir, config)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"--track {track} needs the package {track} ({error}): "
            f'run pip install -e ".[{track}]" in the clone, or leave --track out'
        ) from error


class _Wandb:
    """Weights & Biases, offline unless WANDB_MODE says otherwise; upload with `wandb sync`."""

    def __init__(self, run_dir: Path, config: Mapping[str, Any]) -> None:
        import wandb

        self._run = wandb.init(
            project="chess-selfplay-lab",
            name=run_dir.name,
            dir=str(run_dir),
            config=dict(config),
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=wandb.Settings(silent=True),  # its lines would tear the live table
        )

    def write(self, row: Mapping[str, float]) -> None:
        self._run.log(dict(row), step=int(row["step"]))

    def close(self) -> None:
        self._run.finish()


class _TensorBoard:
    """Event files in the run folder: `tensorboard --logdir runs`."""

    def __init__(self, run_dir: Path, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run_dir / "tensorboard"))
        self._writer.add_text("config", f"```json\n{json.dumps(config, indent=2)}\n```")

    def write(self, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self._writer.add_scalar(name, value, int(row["step"]))

    def close(self) -> None:
        with contextlib.suppress(OSError):  # a full disk must not hide the end of the run
            self._writer.close()
