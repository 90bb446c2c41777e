"""Where a run that was stopped or killed goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from algorithms.run_folder import checkpoint
from algorithms.run_folder.files import METRICS_FILE, json_lines, read_record


def newest_checkpoint(run_dir: Path, say: Callable[[str], None]) -> checkpoint.Checkpoint | None:
    """The newest intact checkpoint of a run; None where it was killed before its first one.

    Such a run has made no update, so it loses nothing where it begins anew from its configuration.

    Args:
        run_dir: the run folder.
        say: is told of a run that begins anew.

    Raises:
        CheckpointError: all checkpoints are damaged, or they are gone and the record holds updates.
    """
    folder = run_dir / "checkpoints"
    if checkpoint.checkpoints(folder) or _has_updates(run_dir / METRICS_FILE):
        return checkpoint.load_newest(folder)
    say(f"{run_dir} has no checkpoint yet: the run begins anew from its config.json")
    return None


def _has_updates(path: Path) -> bool:
    return any(row["step"] > 0 for row, _ in json_lines(read_record(path), str(path)))
