"""Games so far: what a player of a match may know beyond the position that it moves in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chess_env.games.lockstep import HISTORY_LENGTH
from chess_env.rules.packed import CLOCK_SHIFT, STATE, WORD_MASK, Positions
from chess_env.rules.rules import hash_batch

if TYPE_CHECKING:
    from chess_env.games.boards import Boards

Index = NDArray[np.int64]


@dataclass(frozen=True)
class GamesSoFar:
    """Each of N games since its last capture or pawn move, or since it began: earlier positions cannot come again.

    Attributes:
        starts: uint64 [N, 8], packed: the position after that move, or the opening, with its clocks.
        moves: the action ids since then, of both sides in turn; N lists. The position to move in is the last one.
        hashes: uint64 [N, H]: the positions since then by `rules.position_hash`, the present one last.
        lengths: int64 [N]: how many of the H are valid.
        repetitions: int64 [N]: earlier occurrences of the present position.
    """

    starts: Positions
    moves: Sequence[Sequence[int]]
    hashes: NDArray[np.uint64]
    lengths: Index
    repetitions: Index

    def of(self, boards: Index) -> GamesSoFar:
        """The games on the boards `boards` (int64 [n]) alone."""
        return GamesSoFar(
            self.starts[boards],
            [self.moves[board] for board in boards.tolist()],
            self.hashes[boards],
            self.lengths[boards],
            self.repetitions[boards],
        )

    def occurred(self, board: int, positions: Positions) -> NDArray[np.bool_]:
        """bool [L]: which positions (uint64 [L, 8]) have occurred in the game on one board, clocks left aside."""
        return np.isin(hash_batch(positions), self.hashes[board, : self.lengths[board]])


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
