"""The checkpoint from which a stopped or killed run goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from algorithms.run_folder import checkpoint
from algorithms.run_folder.files import (
    CONFIG_FILE,
    METRICS_FILE,
    RunFolderError,
    read_record,
    settings_intact,
)
from algorithms.run_folder.rows import rows_of


def newest_checkpoint(run_dir: Path, say: Callable[[str], None]) -> checkpoint.Checkpoint | None:
    """The newest intact checkpoint of a run; None where it was killed before its first one.

    Such a run has made no update, so it loses nothing if it starts again from its configuration.

    Args:
        run_dir: the run folder.
        say: shows that a run starts again, and which files have no checksum.

    Raises:
        CheckpointError: all checkpoints are damaged, or they are gone and the record holds updates.
        RunFolderError: a row of the record is not what was written.
    """
    folder = run_dir / "checkpoints"
    if (run_dir / CONFIG_FILE).exists() and settings_intact(run_dir) is None:
        say(f"{run_dir / CONFIG_FILE} has no checksum: damage would not be seen")
    if _checked_updates(run_dir / METRICS_FILE, say) or checkpoint.checkpoints(folder):
        return checkpoint.load_newest(folder)
    say(f"{run_dir} has no checkpoint yet: the run begins anew from its config.json")
    return None


def _checked_updates(path: Path, say: Callable[[str], None]) -> bool:
    """Whether the record holds updates; says where rows of it have no checksum."""
    rows = rows_of(read_record(path), str(path))
    if rows.altered:
        raise RunFolderError(rows.alteration(path))
    for doubt in rows.doubts(path):
        say(doubt)
    return any(row["step"] > 0 for row in rows.values)
