"""Start positions that one side has won: what a policy must be able to bring home.

Random play, and the games of a policy against itself, seldom reach them, and a policy that never saw them
stalemates its opponent with four queens on the board. A line of the opening book is continued by random plies;
then one side loses some or all of its men but the king, and sometimes the other side's pawns have become
queens or rooks. No engine is asked.
"""

from __future__ import annotations

import math

import numpy as np

from chess_env.movegen import KINGS, OWN, PAWNS, QUEENS, ROOKS, STATE, Positions
from chess_env.openings import opening_positions
from chess_env.phase_mix import opponent_in_check
from chess_env.random_play import random_walk
from chess_env.rules import ONGOING, status_batch

WALK_PLIES = (10, 160)
PROMOTED_SHARE = 0.4  # of the positions, in which one to three pawns have promoted
ROOK_SHARE = 0.2  # of the promotions
_ONE = np.uint64(1)


def _squares(bits: np.uint64) -> list[int]:
    return [square for square in range(64) if int(bits) >> square & 1]


class DecidedPositions:
    """Positions in which one side has lost a random share of its men; either side may be to move.

    The share s has the density 2 s in [0, 1]: few positions are nearly level, and many have a king that
    is nearly or quite alone, where stalemate is a trap.
    """

    name = "decided"

    def __init__(self) -> None:
        self._book = opening_positions()

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8], one legal and unfinished position."""
        while True:
            position = self._candidate(rng)
            if not opponent_in_check(position) and status_batch(position[None])[0] == ONGOING:
                return position

    def _candidate(self, rng: np.random.Generator) -> Positions:
        line = self._book[rng.integers(len(self._book))]
        start = line[rng.integers(len(line))]
        low, high = WALK_PLIES
        position = random_walk(start, int(rng.integers(low, high + 1)), rng)[-1].copy()
        occupied = np.bitwise_or.reduce(position[:6])
        mover = position[OWN] & occupied
        stronger = mover if rng.random() < 0.5 else occupied & ~mover
        # Castling and en passant rights may hang on a man that goes; the game goes on without them.
        position[STATE] &= ~np.uint64(0x3FF)
        weaker = occupied & ~stronger & ~position[KINGS]
        lost_share = math.sqrt(rng.random())
        for square in _squares(weaker):
            if rng.random() < lost_share:
                position[:7] &= ~(_ONE << np.uint64(square))
        if rng.random() < PROMOTED_SHARE:
            self._promote(position, stronger, rng)
        return position

    def _promote(self, position: Positions, stronger: np.uint64, rng: np.random.Generator) -> None:
        pawns = _squares(position[PAWNS] & stronger)
        for square in rng.permutation(pawns)[: int(rng.integers(1, 4))]:
            bit = _ONE << np.uint64(int(square))
            position[PAWNS] &= ~bit
            position[ROOKS if rng.random() < ROOK_SHARE else QUEENS] |= bit
