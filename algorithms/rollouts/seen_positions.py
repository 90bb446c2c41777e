"""The positions that a run has trained on lately."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

WINDOW = 262_144
"""States that are remembered; older ones count as new again."""


class SeenPositions:
    """The positions of the last `WINDOW` states of a run, as hashes: 4 MB, however long the run is.

    Two different positions of a window share a 64-bit hash less than once in 10^8 windows.
    """

    def __init__(self) -> None:
        self._order = np.zeros(0, np.int64)  # oldest first
        self._sorted = np.zeros(0, np.int64)  # the same hashes, ascending

    def fraction(self, position_hash: Tensor) -> float:
        """Share of the states whose position was seen before; the states are remembered.

        Seen before means: among the `WINDOW` states before this call, or earlier in this call. The
        order of the states inside a call does not matter. NaN for no state.

        Args:
            position_hash: int64, any shape: the states that are trained on, not padding.
        """
        hashes = position_hash.detach().reshape(-1).cpu().numpy()
        if not len(hashes):
            return float("nan")
        distinct = np.unique(hashes)
        place = np.searchsorted(self._sorted, distinct)
        known = np.append(self._sorted, distinct[-1])[place] == distinct
        known &= place < len(self._sorted)
        self._remember(hashes)
        return (len(hashes) - int(np.count_nonzero(~known))) / len(hashes)

    def _remember(self, hashes: NDArray[np.int64]) -> None:
        order = np.concatenate([self._order, hashes])
        forgotten, self._order = order[:-WINDOW], order[-WINDOW:]
        added = np.sort(hashes)
        self._sorted = np.insert(self._sorted, np.searchsorted(self._sorted, added), added)
        if len(forgotten):
            values, counts = np.unique(forgotten, return_counts=True)
            first = np.searchsorted(self._sorted, values)
            self._sorted = np.delete(self._sorted, np.repeat(first, counts) + _ramps(counts))

    def to_array(self) -> NDArray[np.int64]:
        """int64 `[min(states, WINDOW)]`, oldest first, for a checkpoint."""
        return self._order.copy()

    @classmethod
    def from_array(cls, hashes: NDArray[np.int64]) -> SeenPositions:
        """The inverse of `to_array`, from its int64 `[n]`."""
        seen = cls()
        seen._remember(hashes)
        return seen


def _ramps(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ..., c - 1 for each count c, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
