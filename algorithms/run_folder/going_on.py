"""The checkpoint from which a stopped or killed run goes on, and what a record of an older version lacks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.run_folder import checkpoint
from algorithms.run_folder.files import (
    CONFIG_FILE,
    METRICS_FILE,
    RunFolderError,
    read_record,
    settings_intact,
)
from algorithms.run_folder.reading import CONFIG_LIMITS, load_json
from algorithms.run_folder.rows import rows_of


def newest_checkpoint(
    run_dir: Path, settings: Mapping[str, Any], say: Callable[[str], None]
) -> checkpoint.Checkpoint | None:
    """The newest intact checkpoint of a run; None where it was killed before its first one.

    Such a run has made no update, so it loses nothing if it starts again from its configuration.

    Args:
        run_dir: the run folder.
        settings: JSON values of the settings that the run goes on with.
        say: shows that a run starts again, which files have no checksum, and which settings config.json lacks.

    Raises:
        CheckpointError: all checkpoints are damaged, or they are gone and the record holds updates.
        RunFolderError: a row of the record is not what was written.
    """
    folder, config = run_dir / "checkpoints", run_dir / CONFIG_FILE
    if config.exists():
        if settings_intact(run_dir) is None:
            say(f"{config} has no checksum: damage would not be seen")
        say_defaults(config, completed(load_json(config, CONFIG_LIMITS), settings)[1], say)
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


def completed(
    stored: Mapping[str, Any],
    own: Mapping[str, Any],
    needed: Collection[str] = (),
    inside: str = "",
) -> tuple[dict[str, Any], list[str]]:
    """(nested values of a record with what they lack taken from a run's own, dotted names of what was taken).

    Args:
        stored: out of the record.
        own: of the run that goes on from it.
        needed: dotted names of what is not taken, nor anything inside it.
        inside: what stands before the names.
    """
    found, lacking = dict(stored), list[str]()
    for name, value in own.items():
        dotted, there = f"{inside}{name}", stored.get(name)
        if dotted in needed:
            continue
        if name not in stored:
            found[name] = value
            lacking.append(dotted)
        elif isinstance(value, Mapping) and isinstance(there, Mapping):
            found[name], deeper = completed(there, value, needed, f"{dotted}.")
            lacking += deeper
    return found, lacking


def say_defaults(path: Path, names: Sequence[str], say: Callable[[str], None]) -> None:
    """Says in one line which entries of a record were missing; nothing where none was."""
    if names:
        say(
            f"{path} has no {', '.join(names)}: it is of an older version, and the default is taken"
        )
