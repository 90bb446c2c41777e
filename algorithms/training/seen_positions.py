"""The positions that a run has trained on lately."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

WINDOW = 262_144
"""States that are remembered; older ones count as new again."""

_NONE = np.iinfo(np.int64).min
"""Stands where there is no state yet."""


class SeenPositions:
    """The positions of the last `WINDOW` states of a run, as hashes: 4 MB, however long the run is.

    Two different positions of a window share a 64-bit hash less than once in 10^8 windows.
    """

    def __init__(self) -> None:
        # Full and changed in place: arrays of megabytes that come and go leave holes in the memory of the process.
        self._ring = np.full(WINDOW, _NONE)  # the newest one stands before `_next`
        self._next = 0
        self._num_states = 0
        self._sorted = np.full(WINDOW, _NONE)

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
        known = self._sorted[np.minimum(place, WINDOW - 1)] == distinct
        self._remember(hashes[-WINDOW:])
        return (len(hashes) - int(np.count_nonzero(~known))) / len(hashes)

    def _remember(self, newest: NDArray[np.int64]) -> None:
        self._ring[(self._next + np.arange(len(newest))) % WINDOW] = newest
        self._next = (self._next + len(newest)) % WINDOW
        self._num_states = min(self._num_states + len(newest), WINDOW)
        self._sorted[:] = self._ring
        self._sorted.sort()

    def to_array(self) -> NDArray[np.int64]:
        """int64 `[min(states, WINDOW)]`, oldest first, for a checkpoint."""
        return np.roll(self._ring, -self._next)[WINDOW - self._num_states :]

    @classmethod
    def from_array(cls, hashes: NDArray[np.int64]) -> SeenPositions:
        """The inverse of `to_array`, from its int64 `[n]`."""
        seen = cls()
        seen._remember(hashes[-WINDOW:])
        return seen
