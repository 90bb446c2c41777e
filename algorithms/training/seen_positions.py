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
    """The positions of the last `WINDOW` states of a run, as hashes: 6 MB, however long the run is.

    Two different positions of a window share a 64-bit hash less than once in 10^8 windows.
    """

    def __init__(self) -> None:
        # Full and changed in place: arrays of megabytes that come and go leave holes in the memory of the process.
        self._ring = np.full(WINDOW, _NONE)  # the newest one stands before `_next`
        self._next = 0
        self._num_states = 0
        self._sorted, self._spare = np.full(WINDOW, _NONE), np.full(WINDOW, _NONE)

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
        self._remember(hashes)
        return (len(hashes) - int(np.count_nonzero(~known))) / len(hashes)

    def _remember(self, hashes: NDArray[np.int64]) -> None:
        newest = hashes[-WINDOW:]
        places = (self._next + np.arange(len(newest))) % WINDOW
        forgotten, self._ring[places] = self._ring[places], newest
        self._next = (self._next + len(newest)) % WINDOW
        self._num_states = min(self._num_states + len(newest), WINDOW)

        values, counts = np.unique(forgotten, return_counts=True)
        first = np.searchsorted(self._sorted, values)
        gone = np.repeat(first, counts) + _ramps(counts)
        pieces = _exchanged(self._sorted, gone, np.sort(newest))
        np.concatenate(pieces, out=self._spare)
        self._sorted, self._spare = self._spare, self._sorted

    def to_array(self) -> NDArray[np.int64]:
        """int64 `[min(states, WINDOW)]`, oldest first, for a checkpoint."""
        return np.roll(self._ring, -self._next)[WINDOW - self._num_states :]

    @classmethod
    def from_array(cls, hashes: NDArray[np.int64]) -> SeenPositions:
        """The inverse of `to_array`, from its int64 `[n]`."""
        seen, newest = cls(), hashes[-WINDOW:]
        seen._num_states = len(newest)
        seen._ring[WINDOW - len(newest) :] = newest
        seen._sorted[:] = np.sort(seen._ring)
        return seen


def _ramps(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ..., c - 1 for each count c, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _exchanged(
    ascending: NDArray[np.int64], gone: NDArray[np.int64], added: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Pieces that make up the ascending array without the entries at `gone` and with `added`, both ascending."""
    places = np.searchsorted(ascending, added).tolist()
    events = [(place, False, number) for number, place in enumerate(places)]
    events += [(place, True, 0) for place in gone.tolist()]
    pieces, start = [], 0
    for place, is_gone, number in sorted(events):
        pieces.append(ascending[start:place])
        start = place + is_gone
        if not is_gone:
            pieces.append(added[number : number + 1])
    return [*pieces, ascending[start:]]
