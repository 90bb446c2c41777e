"""A run that is being trained, followed from outside: what is new in its folder since the last look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from algorithms.evaluation.record_tail import RecordTail, Row
from algorithms.evaluation.snapshots import Listing, RunSnapshots, Snapshot, moves_by_update


@dataclass(frozen=True)
class News:
    """What is new in a run folder.

    Attributes:
        rows: new rows of the record, in order.
        anew: whether these take the place of all rows before, because the run went on from a checkpoint.
        snapshots: policies that are new on disk.
        gone: policies that are no longer there.
        notes: sentences on what cannot be read at present.
        more: whether there are rows already that this look left to the next one.
    """

    rows: list[Row]
    anew: bool
    snapshots: tuple[Snapshot, ...]
    gone: tuple[Snapshot, ...]
    notes: tuple[str, ...]
    more: bool = False

    def __bool__(self) -> bool:
        """Whether anything is new; notes are no news."""
        return bool(self.rows or self.anew or self.snapshots or self.gone)


class RunFollower:
    """Follows a run folder without a lock, and without a change to it.

    Args:
        run_dir: the run folder; it may still be missing or empty.
        most_bytes: of the record for one look, as of `RecordTail.read`: a long record takes a lot of memory at once.

    Attributes:
        present: the policies that were there at the last look.
    """

    def __init__(self, run_dir: Path, most_bytes: int = -1) -> None:
        self._run_dir, self._most_bytes = run_dir, most_bytes
        self._tail, self._listing = RecordTail(run_dir), Listing(run_dir)
        self._moves: dict[int, int] = {}
        self.present = RunSnapshots(run_dir, (), ())

    def look(self) -> News:
        """What is new since the last look; the first one finds all that is there, up to `most_bytes`.

        What is being written waits for a later look. What is damaged becomes a note, and the rest is read.
        """
        notes = []
        try:
            # The directories first: the row of a policy is written before the policy is.
            self._listing.look()
        except OSError as error:
            notes.append(f"{error.filename or self._run_dir} cannot be read ({error.strerror}).")
        rows: list[Row] = []
        anew = False
        try:
            rows, anew = self._tail.read(self._most_bytes)
        except OSError as error:
            notes.append(f"{error.filename or self._run_dir} cannot be read ({error.strerror}).")
        except ValueError as error:
            notes.append(f"{error}.")
        if anew:
            self._moves.clear()
        self._moves |= moves_by_update(rows)
        before, self.present = self.present.every, self._listing.in_order(self._moves)
        now = self.present.every
        seen, there = set(before), set(now)  # of thousands, to search the tuples takes seconds
        return News(
            rows,
            anew,
            tuple(each for each in now if each not in seen),
            tuple(each for each in before if each not in there),
            (*notes, *self.present.notes),
            more=bool(rows) and self._tail.waits,
        )

    @property
    def scored_moves(self) -> Mapping[int, int]:
        """Update -> scored moves, by the rows of all looks."""
        return self._moves
