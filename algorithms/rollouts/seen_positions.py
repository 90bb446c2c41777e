"""Which positions a run has trained on lately."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

WINDOW = 262_144
"""States that are remembered; older ones count as new again."""


class SeenPositions:
    """The positions of the last `WINDOW` states of a run, as hashes.

    Two different positions of a window share a 64-bit hash less than once in 10^8 windows.
    """

    def __init__(self) -> None:
        self._order = np.zeros(WINDOW, np.int64)  # a ring: state i is at i % WINDOW
        self._last: dict[int, int] = {}  # hash -> number of its latest state
        self._count = 0

    def fraction(self, position_hash: Tensor) -> float:
        """Share of the states whose position was seen before; the states are remembered.

        Seen before means: among the `WINDOW` states before this call, or earlier in this call. The
        order of the states inside a call does not matter. NaN for no state.

        Args:
            position_hash: int64, any shape: the states that are trained on, not padding.
        """
        hashes: list[int] = position_hash.detach().reshape(-1).tolist()
        if not hashes:
            return float("nan")
        new = sum(value not in self._last for value in set(hashes))
        for value in hashes:
            self._remember(value)
        return (len(hashes) - new) / len(hashes)

    def _remember(self, value: int) -> None:
        place = self._count % WINDOW
        if self._count >= WINDOW:
            oldest = int(self._order[place])
            if self._last[oldest] == self._count - WINDOW:
                del self._last[oldest]
        self._order[place] = value
        self._last[value] = self._count
        self._count += 1

    def to_array(self) -> NDArray[np.int64]:
        """int64 `[min(states, WINDOW)]`, oldest first, for a checkpoint."""
        if self._count < WINDOW:
            return self._order[: self._count].copy()
        return np.roll(self._order, -(self._count % WINDOW))

    @classmethod
    def from_array(cls, hashes: NDArray[np.int64]) -> SeenPositions:
        """The inverse of `to_array`, from its int64 `[n]`."""
        seen = cls()
        for value in hashes.tolist():
            seen._remember(value)
        return seen
