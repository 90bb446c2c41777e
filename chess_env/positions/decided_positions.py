"""Start positions that one side has won: positions that a policy must be able to win.

Random play, and the games of a policy against itself, seldom reach them, and a policy that never saw them
stalemates a bare king with an army around it. A line of the opening book is continued by random plies; then one
side loses some or all of its men but the king, its king wanders, and sometimes pawns of the other side have
become queens or rooks. No engine is asked.
"""

from __future__ import annotations

import numpy as np

from chess_env.positions.openings import opening_positions
from chess_env.positions.phase_mix import opponent_in_check
from chess_env.rules.movegen import in_check
from chess_env.rules.packed import (
    KINGS,
    OWN,
    PAWNS,
    QUEENS,
    ROOKS,
    STATE,
    Positions,
)
from chess_env.rules.random_play import random_walk
from chess_env.rules.rules import ONGOING, status_batch

WALK_PLIES = (4, 120)
BARE_SHARE = 0.5  # of the positions: the weaker side keeps its king and at most two other men
WANDER_SHARE = 0.6  # in which its king stands anywhere
PROMOTED_SHARE = 0.4  # in which one to three pawns of the stronger side have promoted
ROOK_SHARE = 0.2  # of the promotions
STRONGER_MOVES_SHARE = 0.75
_ONE = np.uint64(1)
_CASTLING_AND_EN_PASSANT = np.uint64(0x3FF)


def _squares(bits: np.uint64) -> list[int]:
    return [square for square in range(64) if int(bits) >> square & 1]


class DecidedPositions:
    """Positions in which one side has lost half of its men, most of them, or all but the king."""

    name = "decided"

    def __init__(self) -> None:
        self._book = opening_positions()

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8], one legal and unfinished position."""
        while True:
            position = self._candidate(rng)
            if (
                position is not None
                and not opponent_in_check(position)
                and status_batch(position[None])[0] == ONGOING
            ):
                return position

    def _candidate(self, rng: np.random.Generator) -> Positions | None:
        """uint64 [8], a position that may be illegal or over; None where it would be by its kings."""
        line = self._book[rng.integers(len(self._book))]
        low, high = WALK_PLIES
        num_plies = low + int((high - low) * rng.random() ** 2)  # mostly early: full armies
        start = line[rng.integers(len(line))]
        position = random_walk(start, num_plies, rng)[-1].copy()
        occupied = np.bitwise_or.reduce(position[:6])
        mover = position[OWN] & occupied
        stronger_moves = rng.random() < STRONGER_MOVES_SHARE
        stronger = mover if stronger_moves else occupied & ~mover
        # Castling and en passant rights may hang on a man that goes; the game goes on without them.
        position[STATE] &= ~_CASTLING_AND_EN_PASSANT
        self._strip(position, occupied & ~stronger & ~position[KINGS], rng)
        if rng.random() < PROMOTED_SHARE:
            self._promote(position, stronger, rng)
        if rng.random() < WANDER_SHARE:
            return self._wander(position, stronger, rng)
        return position

    def _strip(self, position: Positions, men: np.uint64, rng: np.random.Generator) -> None:
        """Takes most of `men`, or half of them and more, off the board."""
        squares = rng.permutation(_squares(men)).tolist()
        kept = rng.integers(3) if rng.random() < BARE_SHARE else rng.integers(len(squares) // 2 + 1)
        for square in squares[int(kept) :]:
            position[:7] &= ~(_ONE << np.uint64(square))

    def _promote(self, position: Positions, stronger: np.uint64, rng: np.random.Generator) -> None:
        """Turns one to three of the stronger side's pawns into queens or rooks where they stand."""
        pawns = _squares(position[PAWNS] & stronger)
        for square in rng.permutation(pawns)[: int(rng.integers(1, 4))]:
            bit = _ONE << np.uint64(int(square))
            position[PAWNS] &= ~bit
            position[ROOKS if rng.random() < ROOK_SHARE else QUEENS] |= bit

    def _wander(
        self, position: Positions, stronger: np.uint64, rng: np.random.Generator
    ) -> Positions | None:
        """The position with the weaker side's king on a random empty square.

        None where the kings touch, or where it would be in check by men that cannot all have got there.
        """
        occupied = np.bitwise_or.reduce(position[:6])
        here = position[KINGS] & ~stronger
        square = int(rng.choice(_squares(~occupied)))
        there = _ONE << np.uint64(square)
        (other,) = _squares(position[KINGS] & stronger)
        if max(abs(other // 8 - square // 8), abs(other % 8 - square % 8)) <= 1:
            return None
        position[KINGS] ^= here | there
        if position[OWN] & here:
            position[OWN] ^= here | there
        return None if in_check(position) else position
