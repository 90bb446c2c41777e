"""N games in lockstep, compiled: making moves, draw rules with history.

`Boards` holds one row per game in plain arrays; its kernels advance chosen rows and never allocate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.games import lockstep
from chess_env.games.arguments import checked_array
from chess_env.move_facts import FactsAsked
from chess_env.move_facts.batch import write_facts_of
from chess_env.rules.movegen import MAX_LEGAL
from chess_env.rules.packed import BLACK_BIT, CLOCK_SHIFT, STATE, WORD_MASK, Positions
from chess_env.rules.rules import Statuses
from chess_env.rules.validity import playable_batch

# Longest run of positions without capture or pawn move before the 75-move rule ends the game.
_HISTORY = 152

LEAST_FACTS = 128
"""Boards that are worth handing to another thread for the facts of their moves: about half a millisecond."""

_BOOL, _INT8 = np.dtype(np.bool_), np.dtype(np.int8)


class Boards(NamedTuple):
    """The state of N games: one row each in plain arrays, which the methods change in place.

    (Few arrays, because a kernel pays for each one that it is given.)

    Attributes:
        positions: uint64 [N, 8], packed.
        history: uint64 [N, 152], hashes since the last irreversible move, the present one last.
        counters: int64 [N, 5]: number of valid entries in `history`, earlier occurrences of the present
            position, plies since reset (both sides counted), status code, number of legal moves.
        legal_ids: int16 [N, 218], ascending, padded with -1.
    """

    positions: Positions
    history: NDArray[np.uint64]
    counters: NDArray[np.int64]
    legal_ids: NDArray[np.int16]

    @classmethod
    def empty(cls, num_boards: int) -> Boards:
        """N boards on which no game has been placed yet."""
        return cls(
            np.zeros((num_boards, 8), np.uint64),
            np.zeros((num_boards, _HISTORY), np.uint64),
            np.zeros((num_boards, 5), np.int64),
            np.full((num_boards, MAX_LEGAL), -1, np.int16),
        )

    @property
    def repetitions(self) -> NDArray[np.int64]:
        """int64 [N]: earlier occurrences of the present position; a view."""
        return self.counters[:, lockstep.REPETITIONS]

    @property
    def ply(self) -> NDArray[np.int64]:
        """int64 [N]: plies since reset, both sides counted; a view."""
        return self.counters[:, lockstep.PLY]

    @property
    def status(self) -> NDArray[np.int64]:
        """int64 [N]: rules' status code; a view."""
        return self.counters[:, lockstep.STATUS]

    @property
    def num_legal(self) -> NDArray[np.int64]:
        """int64 [N]: number of legal moves; a view."""
        return self.counters[:, lockstep.NUM_LEGAL]

    def rows(self, part: slice) -> Boards:
        """Some of the boards, as views."""
        return Boards(
            self.positions[part], self.history[part], self.counters[part], self.legal_ids[part]
        )

    def place(
        self, index: NDArray[np.int64], starts: Positions, fifty_move: bool, drawn_at: int
    ) -> None:
        """Starts a new game from `starts` [n, 8] on the boards `index` [n]."""
        lockstep.place(*self, index, starts, fifty_move, drawn_at)

    def restore(self, state: Mapping[str, NDArray[Any]], fifty_move: bool, drawn_at: int) -> None:
        """Sets all boards to positions with a history, from the arrays of other boards.

        What follows from these (legal moves, repetitions, status) is computed again.

        Raises:
            ValueError: no such arrays, or a game that cannot be; the boards are as they were.
        """
        positions, history, counters = (
            checked_array(state, name, own)
            for name, own in zip(self._fields, self[:3], strict=False)
        )
        length, ply = counters[:, lockstep.HISTORY_LENGTH], counters[:, lockstep.PLY]
        clock = (positions[:, STATE] >> CLOCK_SHIFT & WORD_MASK).astype(np.int64)
        possible = playable_batch(positions) & (length >= 1) & (length <= clock + 1)
        possible &= (length <= _HISTORY) & (ply >= 0) & (ply < np.iinfo(np.int32).max)
        if not possible.all():
            raise ValueError(
                f"board {np.argmin(possible)} of the state is in no position of a game"
            )
        self.positions[:], self.history[:] = positions, history
        self.counters[:, lockstep.HISTORY_LENGTH] = length - 1  # the present one is entered again
        self.counters[:, lockstep.PLY] = ply
        lockstep.settle(*self, np.arange(len(positions)), fifty_move, drawn_at)

    def advance(
        self,
        index: NDArray[np.int64],
        actions: NDArray[np.int64],
        fifty_move: bool,
        drawn_at: int,
    ) -> None:
        """Makes one legal move on each of the boards `index` [n]."""
        lockstep.advance(*self, index, actions, fifty_move, drawn_at)

    def white_to_move(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool [n]: True where White is to move on the boards `index`."""
        return self.positions[index, STATE] & BLACK_BIT == 0

    def illegal(self, actions: NDArray[np.int64]) -> tuple[int, NDArray[np.bool_]]:
        """(number, bool [N] or [N, G] like `actions`): where an action is not legal on its board."""
        out = np.empty(actions.shape, _BOOL)
        return lockstep.find_illegal(self.counters, self.legal_ids, actions, out), out

    def judge(
        self, refused: NDArray[np.bool_], waiting: NDArray[np.bool_], max_plies: int
    ) -> tuple[int, NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], Statuses]:
        """(number done; done, terminated, truncated bool [N]; status int8 [N]) of the games not `waiting`.

        Args:
            refused: bool [N], True where an illegal action ends the game.
            waiting: bool [N], True where a game ended earlier and no new one has begun.
            max_plies: The ply limit; truncation is never termination.
        """
        count = len(refused)
        done, terminated = np.empty(count, _BOOL), np.empty(count, _BOOL)
        truncated, status = np.empty(count, _BOOL), np.empty(count, _INT8)
        num_done = lockstep.judge(
            self.counters, refused, waiting, max_plies, status, terminated, truncated, done
        )
        return num_done, done, terminated, truncated, status

    def look_ahead(
        self, actions: NDArray[np.int64], fifty_move: bool, drawn_at: int
    ) -> tuple[Positions, Statuses]:
        """(uint64 [N, G, 8] the positions after each legal action [N, G], int8 [N, G] their status); nothing moves."""
        children = np.empty((*actions.shape, 8), np.uint64)
        status = np.empty(actions.shape, _INT8)
        lockstep.look_ahead(
            self.positions,
            self.history,
            self.counters,
            actions,
            fifty_move,
            drawn_at,
            children,
            status,
        )
        return children, status

    def write_move_facts(
        self,
        index: NDArray[np.int64],
        fifty_move: bool,
        asked: FactsAsked,
        facts: NDArray[np.uint8],
    ) -> None:
        """Writes the facts of the legal moves on the boards `index` to `facts`, uint8 [N, L, F].

        They are in the order of `legal_ids`; none of these boards has more than L moves.
        """
        boards = self.positions, self.legal_ids, self.history, self.counters
        write_facts_of(index, *boards, fifty_move, asked, facts)
