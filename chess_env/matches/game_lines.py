"""Keeps the games of a match as far as its players may look at them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chess_env.games.boards import Boards
from chess_env.games.lockstep import HISTORY_LENGTH
from chess_env.games.so_far import GamesSoFar
from chess_env.rules.packed import CLOCK_SHIFT, STATE, WORD_MASK

Index = NDArray[np.int64]


class GameLines:
    """Keeps the moves of the games on some boards since each one's last capture or pawn move.

    Args:
        boards: all of them at the start of their games.
    """

    def __init__(self, boards: Boards) -> None:
        self._boards = boards
        self._starts = boards.positions.copy()
        self._moves: list[list[int]] = [[] for _ in self._starts]

    def played(self, index: Index, actions: Index) -> None:
        """Notes the moves `actions` [n] that were just made on the boards `index` [n]."""
        positions = self._boards.positions[index]
        fresh = (positions[:, STATE] >> CLOCK_SHIFT) & WORD_MASK == 0
        self._starts[index[fresh]] = positions[fresh]
        for row, action, is_fresh in zip(
            index.tolist(), actions.tolist(), fresh.tolist(), strict=True
        ):
            if is_fresh:
                self._moves[row] = []
            else:
                self._moves[row].append(action)

    def so_far(self, index: Index) -> GamesSoFar:
        """The games on the boards `index` [n]; lists and arrays of their own."""
        boards = self._boards
        return GamesSoFar(
            self._starts[index],
            [tuple(self._moves[row]) for row in index.tolist()],
            boards.history[index],
            boards.counters[index, HISTORY_LENGTH],
            boards.repetitions[index],
        )
