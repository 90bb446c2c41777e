"""Labelled positions on disk: files that are whole or absent, and a manifest with their SHA-256.

    labels/manifest.json                      the sources of the shards, and each one's SHA-256
    labels/shard-00000.npz, shard-00001.npz   positions with scores of all legal moves, or moves played

A shard is read only where its bytes are those that the manifest names.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.run_folder.atomic_files import load_json, replace_file, replace_json
from chess_env.rules.packed import Positions
from chess_env.rules.validity import playable_batch

FORMAT = 1
MANIFEST = "manifest.json"
_ARRAYS = {
    "positions": np.uint64,
    "offsets": np.int32,
    "child_score_cp": np.int16,
    "played": np.int16,
}
_REMEDY = "delete the folder, or choose another --labels-dir"


class ShardError(RuntimeError):
    """Labels cannot be used; the message names the file and the remedy."""


@dataclass(frozen=True)
class LabelledPositions:
    """K positions with at least two legal moves each, and the labels of their moves.

    Attributes:
        positions: uint64 `[K, 8]`, packed.
        offsets: int32 `[K + 1]`; the scores of position k are `child_score_cp[offsets[k]:offsets[k + 1]]`.
            All 0 where only the move played is known.
        child_score_cp: int16, flat, one for each legal move by ascending action id: centipawns from
            the mover's view, mate in n is +-(10000 - n).
        played: int16 `[K]` action of the move played; -1 where moves have scores.
    """

    positions: Positions
    offsets: NDArray[np.int32]
    child_score_cp: NDArray[np.int16]
    played: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def num_labels(self) -> int:
        """Moves that are labelled: scored ones, or one for each position."""
        return len(self.child_score_cp) or len(self)

    def to_bytes(self) -> bytes:
        """An .npz file, the same bytes for the same content."""
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **vars(self))
        return file.getvalue()


def from_bytes(data: bytes, name: str) -> LabelledPositions:
    """The `[N]` labelled positions in the .npz file `data`.

    Raises:
        ShardError: it is no such file; the message calls it `name`.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            found = LabelledPositions(**{array: file[array] for array in _ARRAYS})
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise ShardError(f"{name} is no shard of labels ({error}): {_REMEDY}") from error
    count = len(found)
    consistent = (
        all(vars(found)[name].dtype == dtype for name, dtype in _ARRAYS.items())
        and found.positions.shape == (count, 8)
        and found.offsets.shape == (count + 1,)
        and found.offsets[0] == 0
        and (np.diff(found.offsets) >= 0).all()
        and found.child_score_cp.shape == (found.offsets[-1],)
        and found.played.shape == (count,)
        and playable_batch(found.positions).all()
    )
    if not consistent or count == 0:
        raise ShardError(f"{name} is inconsistent: {_REMEDY}")
    return found


class ShardFolder:
    """The shards in a folder; one process writes them, any number may read.

    Args:
        folder: made where missing.
        identity: JSON values of all that the shards' content is a function of.

    Raises:
        ShardError: the folder's shards were made from something else, or its manifest is damaged.

    Attributes:
        notes: JSON values that are kept in the manifest; change them by `note`.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        self.identity: dict[str, Any] = json.loads(json.dumps(identity))
        self._entries: dict[str, dict[str, Any]] = {}
        self.notes: dict[str, Any] = {}
        self.reload()

    def reload(self) -> None:
        """Reads the manifest again, which another process may have written.

        Raises:
            ShardError: as on opening.
        """
        file = self.folder / MANIFEST
        if file.exists():
            self._read(file)
        elif any(self.folder.glob("shard-*.npz")):
            raise ShardError(f"{self.folder} holds shards and no {MANIFEST}: {_REMEDY}")

    def _read(self, file: Path) -> None:
        try:
            values = load_json(file)
            found, self._entries, self.notes = (
                dict(values[key]) for key in ("identity", "shards", "notes")
            )
            version = values["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ShardError(f"{file} is damaged ({error!r}): {_REMEDY}") from error
        if version != FORMAT:
            raise ShardError(f"{file} has format {version}, this version reads {FORMAT}: {_REMEDY}")
        if found != self.identity:
            listed = ", ".join(
                f"{key} {found.get(key)!r}, wanted {self.identity.get(key)!r}"
                for key in sorted(set(found) | set(self.identity))
                if found.get(key) != self.identity.get(key)
            )
            raise ShardError(
                f"{self.folder} holds other labels than asked for ({listed}): ask for those, or "
                "choose another --labels-dir"
            )

    def path(self, index: int) -> Path:
        """Where shard `index` lies."""
        return self.folder / f"shard-{index:05d}.npz"

    def state(self, index: int) -> str:
        """One of "intact", "absent", and "damaged": not the bytes that the manifest names."""
        entry = self._entries.get(str(index))
        if entry is None:  # also where a kill came between the file and the manifest
            return "absent"
        if not self.path(index).exists():
            return "damaged"
        return "intact" if _digest(self._bytes(index)) == entry["sha256"] else "damaged"

    def write(self, index: int, shard: LabelledPositions) -> None:
        """Writes the shard, then the manifest, each in one atomic step.

        Raises:
            ShardError: it cannot be written; the files are as before.
        """
        data = shard.to_bytes()
        entry = {"sha256": _digest(data), "bytes": len(data), "positions": len(shard)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / MANIFEST).exists():
                self._write_manifest()  # a folder with shards always says what they are
            replace_file(self.path(index), data)
            self._entries[str(index)] = entry
            self._write_manifest()
        except OSError as error:
            raise ShardError(
                f"{self.path(index)} could not be written ({error.strerror or error}): free some "
                "space there; the shards before it are kept"
            ) from error

    def note(self, **values: Any) -> None:
        """Keeps JSON values in the manifest."""
        self.notes.update(json.loads(json.dumps(values)))
        self._write_manifest()

    def read(self, index: int) -> LabelledPositions:
        """The `[N]` labelled positions of shard `index`, its bytes verified.

        Raises:
            ShardError: it is absent or damaged; the message names it.
        """
        if self.state(index) != "intact":
            raise ShardError(
                f"{self.path(index)} is {self.state(index)}: start again (--resume), which makes it anew"
            )
        return from_bytes(self._bytes(index), str(self.path(index)))

    def _bytes(self, index: int) -> bytes:
        try:
            return self.path(index).read_bytes()
        except OSError as error:
            raise ShardError(f"{error}: {_REMEDY}") from error

    def sizes(self) -> list[int]:
        """Positions in each shard, from the first on, up to the first that is not there."""
        sizes: list[int] = []
        while str(len(sizes)) in self._entries:
            sizes.append(int(self._entries[str(len(sizes))]["positions"]))
        return sizes

    def _write_manifest(self) -> None:
        values = {
            "format": FORMAT,
            "identity": self.identity,
            "notes": self.notes,
            "shards": dict(sorted(self._entries.items(), key=lambda item: int(item[0]))),
        }
        replace_json(self.folder / MANIFEST, values)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
