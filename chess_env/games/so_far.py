"""Games so far: what a player of a match may know beyond the position that it moves in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chess_env.games.arguments import player_error
from chess_env.games.boards import Boards
from chess_env.games.lockstep import HISTORY_LENGTH
from chess_env.games.players import Generators, Player, ask, reads_games, reads_move_facts
from chess_env.move_facts import move_facts_batch
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import CLOCK_SHIFT, STATE, WORD_MASK, Positions
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


class GamesInPlay:
    """Games on some boards, of which each player is told what it looks at.

    Args:
        starts: uint64 [N, 8], packed: where they begin.
        players: that will be asked. The moves are kept where one of them looks at games: that costs as much as the
            rules.

    Attributes:
        boards: the games as they stand.
    """

    def __init__(self, starts: Positions, players: Sequence[Player]) -> None:
        self.boards = Boards.empty(len(starts))
        self.boards.place(np.arange(len(starts)), starts, True, 3)
        self._starts = starts.copy()
        self._moves: list[list[int]] = [[] for _ in starts]
        self._kept = any(map(reads_games, players))

    def ask(self, player: Player, index: Index, rngs: Generators) -> Index:
        """int64 [n]: the player's actions on the boards `index` [n]; each board draws from its own of the N `rngs`.

        Raises:
            RuntimeError: an action is not legal on its board.
        """
        boards, facts = self.boards, None
        if asked := reads_move_facts(player):
            facts = move_facts_batch(
                boards.positions[index],
                np.ascontiguousarray(
                    boards.legal_ids[index, : boards.num_legal[index].max(initial=0)]
                ),
                boards.history[index],
                boards.counters[index, HISTORY_LENGTH],
                asked=asked,
            )
        actions = ask(
            player,
            boards.positions[index],
            boards.repetitions[index],
            [rngs[row] for row in index.tolist()],
            facts,
            self.so_far(index) if reads_games(player) else None,
        )
        everywhere = np.full(len(boards.positions), -1)
        everywhere[index] = actions
        illegal = boards.illegal(everywhere)[1][index]
        if illegal.any():
            at = int(np.argmax(illegal))
            raise player_error(player, int(actions[at]), to_fen(boards.positions[index[at]]))
        return actions

    def play(self, index: Index, actions: Index) -> None:
        """Makes the legal moves `actions` [n] on the boards `index` [n]."""
        self.boards.advance(index, actions, True, 3)
        if not self._kept:
            return
        positions = self.boards.positions[index]
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
        boards = self.boards
        return GamesSoFar(
            self._starts[index],
            [tuple(self._moves[row]) for row in index.tolist()],
            boards.history[index],
            boards.counters[index, HISTORY_LENGTH],
            boards.repetitions[index],
        )
