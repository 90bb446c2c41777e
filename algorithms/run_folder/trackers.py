"""Trackers that mirror metrics.jsonl: Weights & Biases and TensorBoard."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol


class Tracker(Protocol):
    """A tracker that is shown each row after metrics.jsonl has it."""

    def write(self, row: Mapping[str, float]) -> None:
        """Shows one row, whose `step` is the update."""

    def close(self) -> None:
        """Flushes and ends the tracker's run."""


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
