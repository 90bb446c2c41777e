"""The probe: 26 fixed positions on which every run measures its policy, each legal child scored.

`probes.npz` holds, in this order, 6 positions of each held-out slice (`random_2_40` is called
`opening` here), evenly spaced over those of its rows with a choice of moves; one position with
exactly one legal move (`forced`); and one with 218, as many as a table of moves here has columns
(`widest`). Child scores are those of the held-out table, or of the same engine at the same limit.
A SHA-256 over all of it is in the file and is checked whenever it is read: figures of two runs can
be compared where it is equal.

`python -m benchmarks.positions.probe_build` describes it, with `--rebuild` makes it anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chess_env.rules.packed import Positions
from chess_env.rules.rules import legal_actions_batch

PROBES_PATH = Path(__file__).with_name("probes.npz")
KINDS = ("opening", "middlegame", "endgame", "decided", "forced", "widest")
_REBUILD = "rebuild it with `python -m benchmarks.positions.probe_build --rebuild`"
_ARRAYS = ("positions", "kinds", "legal_ids", "child_score_cp", "evaluator_id")


@dataclass(frozen=True, eq=False)
class ProbeSet:
    """The positions.

    Attributes:
        positions: uint64 `[M, 8]`, packed, clocks cleared; none is over.
        kinds: M names, each one of `KINDS`.
        legal_ids: int16 `[M, 218]` legal action ids, ascending, padded with -1.
        child_score_cp: int16 `[M, 218]` score of each child from the mover's view, centipawns; 0 on
            padding.
        evaluator_id: which engine, network, options and limit gave the scores.
        sha256: hexadecimal digest of all the above.
    """

    positions: Positions
    kinds: tuple[str, ...]
    legal_ids: NDArray[np.int16]
    child_score_cp: NDArray[np.int16]
    evaluator_id: str
    sha256: str

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def num_legal(self) -> NDArray[np.int64]:
        """int64 `[M]` number of legal moves."""
        return (self.legal_ids >= 0).sum(1)

    def of_kind(self, kind: str) -> NDArray[np.bool_]:
        """Bool `[M]`: the positions of one kind."""
        return np.array([name == kind for name in self.kinds])


def contents_sha256(contents: Mapping[str, NDArray[np.generic]]) -> str:
    """Hexadecimal SHA-256 over name, dtype, shape and bytes of the set's arrays, in a fixed order."""
    digest = hashlib.sha256()
    for name in _ARRAYS:
        array = np.ascontiguousarray(contents[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def read_probe_set(path: Path) -> ProbeSet:
    """The set in a file, checked.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not such a set, damaged, or built by other rules of chess; the message says how
            to rebuild it.
    """
    if not path.exists():
        raise FileNotFoundError(f"the probe set {path} is missing; {_REBUILD}")
    try:
        with np.load(path, allow_pickle=False) as file:
            contents = {name: file[name] for name in _ARRAYS}
            stored = str(file["sha256"])
    except Exception as error:  # np.load raises many kinds for a damaged file
        raise ValueError(f"the probe set {path} cannot be read ({error}); {_REBUILD}") from error
    found = contents_sha256(contents)
    if found != stored:
        raise ValueError(
            f"the probe set {path} is damaged: its contents have the SHA-256 {found[:12]}..., "
            f"written in it is {stored[:12]}...; {_REBUILD}"
        )
    positions = contents["positions"]
    legal_ids, _ = legal_actions_batch(positions)
    if not np.array_equal(legal_ids, contents["legal_ids"]):
        row = int(np.flatnonzero((legal_ids != contents["legal_ids"]).any(1))[0])
        raise ValueError(
            f"position {row} of the probe set {path} has other legal moves by these rules than in "
            f"the file; {_REBUILD}"
        )
    for array in contents.values():
        array.setflags(write=False)
    return ProbeSet(
        positions=positions,
        kinds=tuple(str(kind) for kind in contents["kinds"]),
        legal_ids=contents["legal_ids"],
        child_score_cp=contents["child_score_cp"],
        evaluator_id=str(contents["evaluator_id"]),
        sha256=stored,
    )


@lru_cache(maxsize=1)
def load_probe_set() -> ProbeSet:
    """The committed set; its arrays are read-only and shared by all callers."""
    return read_probe_set(PROBES_PATH)
