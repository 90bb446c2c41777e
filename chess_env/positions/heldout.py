"""The held-out table: positions that no training source ever starts from, with every legal child's score.

`heldout.npz` holds at least 256 positions in each of four slices. `random_2_40`: 2 to 40 uniformly
random plies from the initial position; `middlegame` and `endgame`: from `phase_mix.py`; `decided`: a
score beyond +-600 centipawns, half of them won and half lost for the player to move. Each child is
scored by Stockfish 15.1, pure, at depth 8, seen from the player who moves into it; mates by the rules
are +10000, draws by the rules 0. The clocks of the positions are cleared (rule-50 clock 0, move 1).

Rebuild it with `python -m benchmarks.positions.heldout_build --rebuild`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chess_env.rules.packed import Positions
from chess_env.rules.rules import hash_batch, position_hash

HELDOUT_PATH = Path(__file__).with_name("heldout.npz")
SLICE_NAMES = ("random_2_40", "middlegame", "endgame", "decided")
_REBUILD = "rebuild it with `python -m benchmarks.positions.heldout_build --rebuild`"


@dataclass(frozen=True)
class Heldout:
    """The held-out table.

    Attributes:
        positions: uint64 [M, 8], packed, clocks cleared; each has a legal move and is not over.
        slice_of: int8 [M], index into `slice_names`.
        slice_names: Names of the slices.
        offsets: int32 [M + 1]; the children of position m are `child_score_cp[offsets[m]:offsets[m + 1]]`.
        child_score_cp: int16, flat, one score per legal move in the order of `legal_actions` (ascending
            action ids), centipawns from the mover's view: higher is better for the player to move.
        evaluator_id: Which engine, network, options and limit gave the scores.
    """

    positions: Positions
    slice_of: NDArray[np.int8]
    slice_names: tuple[str, ...]
    offsets: NDArray[np.int32]
    child_score_cp: NDArray[np.int16]
    evaluator_id: str

    def __len__(self) -> int:
        return len(self.positions)

    def indices(self, slice_name: str) -> NDArray[np.int64]:
        """int64 [m]: the positions of one slice.

        Raises:
            ValueError: Unknown slice.
        """
        if slice_name not in self.slice_names:
            raise ValueError(
                f"slice is {slice_name!r}: expected one of {', '.join(self.slice_names)}"
            )
        return np.flatnonzero(self.slice_of == self.slice_names.index(slice_name))

    def scores_cp(self, index: int) -> NDArray[np.int16]:
        """int16 [L]: the children's scores of one position, in the order of its legal actions."""
        return self.child_score_cp[self.offsets[index] : self.offsets[index + 1]]


def read_heldout(path: Path) -> Heldout:
    """The table in a file.

    Raises:
        FileNotFoundError: No such file.
        ValueError: Not such a table; the message says how to rebuild it.
    """
    if not path.exists():
        raise FileNotFoundError(f"the held-out table {path} is missing; {_REBUILD}")
    try:
        with np.load(path, allow_pickle=False) as file:
            table = Heldout(
                positions=file["positions"],
                slice_of=file["slice_of"],
                slice_names=tuple(str(name) for name in file["slice_names"]),
                offsets=file["offsets"],
                child_score_cp=file["child_score_cp"],
                evaluator_id=str(file["evaluator_id"]),
            )
    except Exception as error:  # np.load raises many kinds for a damaged file
        raise ValueError(
            f"the held-out table {path} cannot be read ({error}); {_REBUILD}"
        ) from error
    count = len(table.positions)
    consistent = (
        table.positions.dtype == np.uint64
        and table.positions.shape == (count, 8)
        and table.slice_of.shape == (count,)
        and table.offsets.shape == (count + 1,)
        and int(table.offsets[-1]) == len(table.child_score_cp)
    )
    if not consistent:
        raise ValueError(f"the held-out table {path} is inconsistent; {_REBUILD}")
    for array in (table.positions, table.slice_of, table.offsets, table.child_score_cp):
        array.setflags(write=False)
    return table


@lru_cache(maxsize=1)
def load_heldout() -> Heldout:
    """The committed table; its arrays are read-only and shared by all callers."""
    return read_heldout(HELDOUT_PATH)


@lru_cache(maxsize=1)
def heldout_hashes() -> frozenset[int]:
    """`rules.position_hash` of every held-out position; training sources reject these."""
    return frozenset(hash_batch(load_heldout().positions).tolist())


def is_heldout(position: Positions) -> bool:
    """Whether a packed position (uint64 [8], clocks ignored) is in the held-out table."""
    return int(position_hash(position)) in heldout_hashes()
