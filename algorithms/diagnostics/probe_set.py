"""The probe: 26 fixed positions on which every run measures its policy, each legal child scored.

`probes.npz` holds, in this order, 6 positions of each held-out slice (`random_2_40` is called
`opening` here), evenly spaced over those of its rows with a choice of moves; one position with
exactly one legal move (`forced`); and one with 218, as many as a table of moves here has columns
(`widest`). Child scores are those of the held-out table, or of the same engine at the same limit.
A SHA-256 over all of it is in the file and is checked whenever it is read: figures of two runs can
be compared where it is equal.

`python -m algorithms.diagnostics.probe_set` describes it, with `--rebuild` makes it anew: picks held-out positions,
adds the two special ones, scores their children.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators import Evaluator, make_evaluator
from chess_env.evaluators.protocol import scores_of
from chess_env.positions.heldout import SLICE_NAMES, Heldout, load_heldout
from chess_env.rules.fen import pack_fens
from chess_env.rules.movegen import MAX_LEGAL
from chess_env.rules.packed import Positions
from chess_env.rules.rules import children, legal_actions_batch

PROBES_PATH = Path(__file__).with_name("probes.npz")
KINDS = ("opening", "middlegame", "endgame", "decided", "forced", "widest")
_REBUILD = "rebuild it with `python -m algorithms.diagnostics.probe_set --rebuild`"
_ARRAYS = ("positions", "kinds", "legal_ids", "child_score_cp", "evaluator_id")

POSITIONS_PER_SLICE = 6
FORCED_FEN = "6k1/5ppp/8/8/1B6/8/4PPP1/r4K2 w - - 0 1"
"""In check on the back rank: the bishop's block on e1 is the one legal move."""

WIDEST_FEN = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"
"""218 legal moves, the width of every table of legal moves here (N. Petrović, 1964)."""
_KIND_OF_SLICE = dict(zip(SLICE_NAMES, KINDS, strict=False))


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


def heldout_rows(heldout: Heldout, slice_name: str, count: int) -> NDArray[np.int64]:
    """int64 `[count]`: rows of a slice with two legal moves or more, evenly spaced over them."""
    rows = heldout.indices(slice_name)
    free = rows[np.diff(heldout.offsets)[rows] >= 2]
    return free[np.linspace(0, len(free) - 1, count).round().astype(np.int64)]


def rebuild(path: Path, *, evaluator_name: str) -> None:
    """Writes the set to `path` (see above). Deterministic for a given engine build.

    Raises:
        ValueError: the evaluator cannot be made, or is not the one that scored the held-out table.
    """
    heldout = load_heldout()
    rows = {name: heldout_rows(heldout, name, POSITIONS_PER_SLICE) for name in SLICE_NAMES}
    scores = [heldout.scores_cp(int(row)) for chosen in rows.values() for row in chosen]
    kinds = [_KIND_OF_SLICE[name] for name, chosen in rows.items() for _ in chosen]
    special = pack_fens([FORCED_FEN, WIDEST_FEN])
    evaluator = make_evaluator(evaluator_name)
    try:
        if evaluator.id != heldout.evaluator_id:
            raise ValueError(
                f"the evaluator is {evaluator.id!r} and the held-out table was scored by "
                f"{heldout.evaluator_id!r}: one set needs one judge; install that engine (or set "
                "STOCKFISH_PATH), or rebuild the held-out table first"
            )
        scores += [_child_scores_cp(position, evaluator) for position in special]
    finally:
        evaluator.close()
    contents = _contents(
        np.concatenate([heldout.positions[np.concatenate(list(rows.values()))], special]),
        [*kinds, "forced", "widest"],
        scores,
        heldout.evaluator_id,
    )
    # Renamed into place, so that a killed rebuild leaves the old set.
    unfinished = path.with_suffix(".unfinished.npz")
    np.savez_compressed(unfinished, **contents, sha256=np.array(contents_sha256(contents)))
    unfinished.replace(path)


def _child_scores_cp(position: Positions, evaluator: Evaluator) -> NDArray[np.int16]:
    """int16 `[L]`: the children's scores from the mover's view, in the order of the legal actions."""
    return (-scores_of(evaluator, children(position)[0])).astype(np.int16)


def _contents(
    positions: Positions, kinds: list[str], scores: list[NDArray[np.int16]], evaluator_id: str
) -> dict[str, Any]:
    """The arrays of the file, without their digest."""
    legal_ids, num_legal = legal_actions_batch(positions)
    child_score_cp = np.zeros((len(positions), MAX_LEGAL), np.int16)
    child_score_cp[np.arange(MAX_LEGAL) < num_legal[:, None]] = np.concatenate(scores)
    return {
        "positions": positions,
        "kinds": np.array(kinds),
        "legal_ids": legal_ids,
        "child_score_cp": child_score_cp,
        "evaluator_id": np.array(evaluator_id),
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m algorithms.diagnostics.probe_set", description="The probe set."
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="make the set anew (seconds; needs Stockfish)"
    )
    parser.add_argument("--evaluator", default="stockfish-v1:depth=8", help="scores the children")
    parser.add_argument("--out", type=Path, default=PROBES_PATH, help="file to read or write")
    arguments = parser.parse_args()
    if arguments.rebuild:
        rebuild(arguments.out, evaluator_name=arguments.evaluator)
    probes = read_probe_set(arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes, SHA-256 {probes.sha256}")
    print(f"scored by {probes.evaluator_id}")
    for kind in KINDS:
        chosen = probes.of_kind(kind)
        print(f"  {kind}: {chosen.sum()} positions, {probes.num_legal[chosen].sum()} legal moves")


if __name__ == "__main__":
    main()
