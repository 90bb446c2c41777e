"""The policies of a run over its training: which are on disk, one of them ready to play, and what is new of them.

A record that grows is read once: a line that is being written waits for its end.
"""

from __future__ import annotations

import bisect
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from algorithms.config.foreign import NO_TRUST, Trust
from algorithms.evaluation.load_policy import load_policy
from algorithms.networks.policy_net import PolicyNet
from algorithms.run_folder.atomic_files import METRICS_FILE, PARTIAL, open_file
from algorithms.run_folder.checkpoint import (
    WEIGHTS_FILE,
    CheckpointError,
    directories,
    entry,
    read_manifest,
    update_of,
)
from algorithms.run_folder.run_log import checked_row, rows_of
from algorithms.run_folder.snapshots import SNAPSHOTS, scored_moves_of

Row = dict[str, float | None]


class RecordTail:
    """Reads the rows of a run's metrics.jsonl as they come.

    Args:
        run_dir: the run folder; the record may be missing yet.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / METRICS_FILE
        self._file: tuple[int, int] | None = None  # device and inode
        self._offset, self._lines, self._last_step = 0, 0, -1
        self._size = 0

    @property
    def waits(self) -> bool:
        """Whether the last call left a part of the record to the next one."""
        return self._offset < self._size

    def read(self, most_bytes: int = -1) -> tuple[list[Row], bool]:
        """(rows since the last call; whether they begin anew, as the record was cut or replaced since then).

        A run that goes on drops the rows after its checkpoint, so its record is replaced by a shorter one.

        Args:
            most_bytes: of the record, more than a row has; the next call goes on from there. -1 for all.

        Raises:
            ValueError: the record is a symbolic link or no file, or a row is damaged; the message names the line. The
                next call reads from the same place.
            OSError: it cannot be read.
        """
        if self._path.is_symlink():
            raise ValueError(
                f"{self._path} is a symbolic link and is not followed: copy the file here"
            )
        try:
            with open_file(self._path) as file:
                now = os.fstat(file.fileno())
                anew = self._file not in (None, (now.st_dev, now.st_ino))
                anew = anew or now.st_size < self._offset
                if anew:
                    self._forget()
                file.seek(self._offset)
                data = file.read(most_bytes)
        except FileNotFoundError:
            anew = self._file is not None
            self._forget()
            return [], anew
        whole = data[: data.rfind(b"\n") + 1]
        rows = self._parsed(whole)
        self._file, self._offset = (now.st_dev, now.st_ino), self._offset + len(whole)
        self._size = now.st_size
        self._lines += len(rows)
        if rows:
            self._last_step = int(rows[-1]["step"] or 0)
        return rows, anew

    def _forget(self) -> None:
        self._file, self._offset, self._lines, self._last_step, self._size = None, 0, 0, -1, 0

    def _parsed(self, data: bytes) -> list[Row]:
        name = f"{self._path}, after line {self._lines:,}" if self._lines else str(self._path)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}, is no UTF-8 text (byte {error.start}): it is damaged"
            ) from None
        found, last_step = [], self._last_step
        for number, (row, _) in enumerate(rows_of(io.StringIO(text), name), start=1):
            found.append(checked_row(row, last_step, f"{name}, line {number}"))
            last_step = int(found[-1]["step"] or 0)
        return found


CHECKPOINTS = "checkpoints"
MOST_BYTES = 128 * 2**20
T = TypeVar("T")
_UNKNOWN = -1  # scored moves of a checkpoint, before the record was asked


@dataclass(frozen=True)
class Snapshot:
    """A policy of a run that is on disk.

    Attributes:
        scored_moves: of the run when it had this policy.
        update: updates done then.
        path: its directory, which `load_policy` reads.
        sha256: hexadecimal digest of its weights, by the manifest.
    """

    scored_moves: int
    update: int
    path: Path
    sha256: str


@dataclass(frozen=True)
class RunSnapshots:
    """The policies of a run that are on disk.

    Attributes:
        run_dir: the run folder.
        every: in the order of training, one for each update.
        notes: sentences on what was left out.
    """

    run_dir: Path
    every: tuple[Snapshot, ...]
    notes: tuple[str, ...]

    @property
    def scored_moves(self) -> list[int]:
        """Scored moves of each, rising."""
        return [snapshot.scored_moves for snapshot in self.every]


def snapshots(run_dir: Path) -> RunSnapshots:
    """The policies of a run: its snapshots and its checkpoints, at least one.

    What is damaged, of another version or being written is left out, with a note. Manifests are read and weights are
    not: whether these are whole is seen when one is loaded.

    Raises:
        ValueError: it is no folder, or holds no policy that can be read; the message says why.
    """
    if not run_dir.is_dir():
        raise ValueError(f"{run_dir} is no folder: give a run folder")
    follower = RunFollower(run_dir)
    notes = follower.look().notes
    found = replace(follower.present, notes=notes)
    if not found.every:
        why = " ".join(found.notes) or "It has no checkpoint yet: let the run go on."
        raise ValueError(f"{run_dir} holds no policy that can be read. {why}")
    return found


def moves_by_update(rows: Sequence[Mapping[str, float | None]]) -> dict[int, int]:
    """Update -> scored moves, of the rows of a record that say them."""
    return {
        int(row["step"] or 0): int(row["scored_moves"] or 0)
        for row in rows
        if row.get("scored_moves") is not None
    }


class Listing:
    """The directories of a run's policies; looked at again, it reads only the manifests that are new.

    Args:
        run_dir: the run folder; both folders in it may be missing yet.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._read: dict[tuple[Path, int, int], Snapshot | str] = {}
        self._being_written: list[str] = []

    def look(self) -> bool:
        """Whether other directories are there than at the last look.

        Raises:
            OSError: a folder cannot be read.
        """
        before, found = self._read, {}
        for path in self._paths():
            try:
                now = path.lstat()
                key = (path, now.st_ino, now.st_mtime_ns)
                known = before.get(key)
                found[key] = _read(path) if known is None else known
            except FileNotFoundError:  # the run has removed it since it was listed
                continue
        self._read = found
        return found.keys() != before.keys()

    def _paths(self) -> Iterator[Path]:
        self._being_written = []
        for name in (CHECKPOINTS, SNAPSHOTS):
            folder = self._run_dir / name
            yield from directories(folder)
            number = sum(1 for _ in folder.glob(f"{PARTIAL}*")) if folder.is_dir() else 0
            if number:
                self._being_written.append(
                    f"{folder}: {number} being written or removed, or left by a process that was killed."
                )

    def in_order(self, moves: Mapping[int, int]) -> RunSnapshots:
        """The policies as of the last look.

        Args:
            moves: update -> scored moves, by the record: of a checkpoint no other file says them.
        """
        by_update: dict[int, Snapshot] = {}
        notes = list(self._being_written)
        # Snapshots come after checkpoints and take their place: those soon give way to newer ones.
        for found in self._read.values():
            if isinstance(found, str):
                notes.append(found)
                continue
            at = found.scored_moves
            if at == _UNKNOWN and found.update not in moves:
                notes.append(
                    f"{found.path} is left out: {METRICS_FILE} has no row of update {found.update:,}."
                )
                continue
            at = moves[found.update] if at == _UNKNOWN else at
            by_update[found.update] = replace(found, scored_moves=at)
        every = sorted(by_update.values(), key=lambda each: (each.scored_moves, each.update))
        return RunSnapshots(self._run_dir, tuple(every), tuple(notes))


def _read(path: Path) -> Snapshot | str:
    """A policy by its manifest, or a sentence on why it is left out."""
    if path.is_symlink():
        return f"{path} is a symbolic link and is not followed: copy the folder here."
    try:
        values = read_manifest(path)
        sha256 = entry(values, path / WEIGHTS_FILE)["sha256"]
    except CheckpointError as error:
        if not path.exists():
            raise FileNotFoundError(path) from error
        return f"{error}."
    if values.get("update") != update_of(path):
        return f"{path} is left out: it was renamed, its manifest is of another update."
    moves = scored_moves_of(values)
    return Snapshot(_UNKNOWN if moves is None else moves, update_of(path), path, sha256)


class SnapshotPolicies:
    """Policies of snapshots, loaded when they are asked for; those asked for last are kept. Threads may share it.

    Args:
        trust: as of `load_policy`.
        most_bytes: of the weights that are kept; the one asked for last always is.
    """

    def __init__(self, trust: Trust = NO_TRUST, most_bytes: int = MOST_BYTES) -> None:
        self._trust, self._most_bytes = trust, most_bytes
        self._kept: OrderedDict[Snapshot, tuple[PolicyNet, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, snapshot: Snapshot) -> PolicyNet:
        """The policy, in evaluation mode on the CPU.

        Raises:
            ValueError: its weights are damaged, or gone since they were listed; the message names the file.
            UntrustedError: as of `load_policy`.
        """
        with self._lock:
            if snapshot in self._kept:
                self._kept.move_to_end(snapshot)
                return self._kept[snapshot][0]
        policy = load_policy(str(snapshot.path), self._trust)
        size = sum(tensor.nbytes for tensor in policy.state_dict().values())
        with self._lock:
            self._kept[snapshot] = policy, size
            self._kept.move_to_end(snapshot)
            while len(self._kept) > 1 and self.bytes_kept > self._most_bytes:
                self._kept.popitem(last=False)
        return policy

    @property
    def bytes_kept(self) -> int:
        """Bytes of the weights that are kept."""
        return sum(size for _, size in self._kept.values())


def thinned(every: Sequence[T], most: int) -> tuple[T, ...]:
    """At most `most` of them, evenly, with the first and the last."""
    if len(every) <= most:
        return tuple(every)
    return tuple(every[round(i * (len(every) - 1) / (most - 1))] for i in range(most))


def last_at(scored_moves: Sequence[int], cursor: int) -> int | None:
    """Place of the last policy at or before `cursor` scored moves; None where the first comes later.

    Args:
        scored_moves: of each policy, rising.
        cursor: scored moves.
    """
    place = bisect.bisect_right(scored_moves, cursor) - 1
    return None if place < 0 else place


def aligned(*runs: Sequence[int]) -> list[tuple[int, tuple[int | None, ...]]]:
    """(scored moves, place in each run) wherever a run has a policy: the last one at or before, as of `last_at`.

    Args:
        runs: scored moves of the policies of each run, rising.
    """
    cursors = sorted({moves for run in runs for moves in run})
    return [(cursor, tuple(last_at(run, cursor) for run in runs)) for cursor in cursors]


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
