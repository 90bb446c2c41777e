"""Snapshots: the weights of earlier policies over a run, to look at; no run goes on from one.

    snapshots/update-00000040/{model.safetensors, manifest.json}

With a number N they are spread evenly over the budget: N - 1 marks divide `total_moves` scored moves into N - 1 equal
parts, and the first update that reaches a mark is kept. The first mark is at 0, the untrained policy. The last policy
is kept too. What is kept depends on the scored moves alone, so a run that was stopped and goes on keeps the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save as save_tensors
from torch import Tensor

from algorithms.run_folder.atomic_files import remove_whole
from algorithms.run_folder.checkpoint import (
    WEIGHTS_FILE,
    CheckpointError,
    directories,
    directory_of,
    plain,
    read_manifest,
    update_of,
    write_directory,
)

SNAPSHOTS = "snapshots"
"""Name of their folder in a run folder."""
ALL = "all"
FEWEST = 2


class Snapshots:
    """The snapshots of a run that is being trained.

    Args:
        run_dir: the run folder.
        keep: how many policies, spread evenly; "all" for that of every checkpoint; None for none.
        total_moves: the budget, in scored moves.
    """

    def __init__(self, run_dir: Path, keep: int | str | None, total_moves: int) -> None:
        self._folder, self._keep, self._total_moves = run_dir / SNAPSHOTS, keep, total_moves

    def due(self, before: int, now: int, *, at_end: bool, checkpoint: bool) -> bool:
        """Whether the policy of an update is kept.

        Args:
            before: scored moves before the update.
            now: the same after it.
            at_end: whether the run begins or ends here.
            checkpoint: whether a checkpoint is written here.
        """
        if self._keep is None or self._keep == ALL:
            return checkpoint and self._keep is not None
        return at_end or self._marks(now) > self._marks(before)

    def write(self, update: int, scored_moves: int, weights: Mapping[str, Tensor]) -> Path:
        """Path of the snapshot written for `update`; those that are kept no longer are removed.

        Args:
            update: number of updates done.
            scored_moves: of these.
            weights: the policy's state_dict.

        Raises:
            CheckpointError: it could not be written; every earlier one is as it was.
        """
        data = save_tensors({name: plain(tensor) for name, tensor in weights.items()})
        target = directory_of(self._folder, update)
        try:
            write_directory(
                target, {WEIGHTS_FILE: data}, {"update": update, "scored_moves": scored_moves}
            )
        except OSError as error:
            raise CheckpointError(
                f"snapshot {target} could not be written ({error.strerror or error}); it needs "
                f"{len(data):,} bytes in {self._folder}. The run goes on without it: free space there"
            ) from error
        for path in self._surplus():
            remove_whole(path)
        return target

    def resume(self, update: int) -> None:
        """Removes those after `update`: the run goes on from there and writes them again."""
        for path in directories(self._folder):
            if update_of(path) > update:
                remove_whole(path)

    def _surplus(self) -> Iterator[Path]:
        """Those that are kept no longer: neither the first of a mark nor the newest.

        That of a run which was stopped between two marks, and every second one where the budget was doubled.
        """
        if not isinstance(self._keep, int):
            return
        moves, seen = _moves_of(self._folder), set[int]()
        newest = max(moves.values(), default=0)
        for path, at in moves.items():
            mark = self._marks(at)
            if mark in seen and at != newest:
                yield path
            seen.add(mark)

    def _marks(self, moves: int) -> int:
        """Number of marks behind the first that have been reached; the last policy needs none."""
        assert isinstance(self._keep, int)
        parts = self._keep - 1
        return min(moves * parts // self._total_moves, parts - 1)


def scored_moves_of(values: Mapping[str, Any]) -> int | None:
    """The scored moves in the manifest of a snapshot; None in that of a checkpoint, which has none."""
    moves = values.get("scored_moves")
    return moves if type(moves) is int and 0 <= moves < 2**53 else None


def _moves_of(folder: Path) -> dict[Path, int]:
    """Scored moves of each intact snapshot, in order; a damaged one is left where it is."""
    found = {}
    for path in directories(folder):
        try:
            moves = scored_moves_of(read_manifest(path))
        except CheckpointError:
            continue
        if moves is not None:
            found[path] = moves
    return found
