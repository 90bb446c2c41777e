"""Games so far: what a player of a match may know beyond the position that it moves in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chess_env.rules.packed import Positions
from chess_env.rules.rules import hash_batch

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
