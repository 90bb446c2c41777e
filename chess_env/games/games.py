"""N games by the rules of one environment: starting them, making moves, the opponent's replies. No scores here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray

from chess_env.games.arguments import (
    Settings,
    checked_action,
    checked_array,
    checked_start,
    illegal_action_error,
    player_error,
)
from chess_env.games.boards import Boards
from chess_env.games.players import checked_choice
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, STATUS_NAMES, Statuses

Index = NDArray[np.int64]
# NumPy compares with an array of the same type in half the time of a number.
_ONGOING = np.array(ONGOING, np.int64)
_MAX_START_DRAWS = 100
LEAST_PART = 512
"""Boards that are worth handing to another thread where one takes about a microsecond."""


class Games:
    """N boards, one random generator each, and the settings they are played by.

    Attributes:
        boards: The compiled state of the games.
        settings: Rules, start positions, opponent.
        learner_is_white: bool [N]; only read with an opponent.
        everywhere: int64 [N], the index of all boards.
        nowhere: int64 [0], that of none.
    """

    def __init__(self, num_games: int, settings: Settings) -> None:
        self.boards = Boards.empty(num_games)
        self.settings = settings
        self.learner_is_white = np.zeros(num_games, np.bool_)
        self.everywhere, self.nowhere = np.arange(num_games), np.arange(0)
        self._no_replies = np.full(num_games, -1)
        self._no_replies.setflags(write=False)
        self._rngs = [np.random.default_rng() for _ in range(num_games)]

    def seed(self, index: Index, seeds: Sequence[int | None]) -> None:
        """Gives each of the boards `index` a new generator where its seed (one per board of all N) is not None."""
        for row in index.tolist():
            if seeds[row] is not None:
                self._rngs[row] = seeding.np_random(seeds[row])[0]

    def start(self, index: Index, starts: Sequence[Positions] | None = None) -> Index:
        """int64 [N]: the opponent's opening replies (-1: none); new games stand on the boards `index`.

        Args:
            index: int64 [n], the boards to start again.
            starts: n packed positions already checked, or None to draw from the source.

        Raises:
            ValueError: a start where the game is over, also after the opponent's first move from a given start.
            RuntimeError: 100 drawn starts in a row end with the opponent's first move.
        """
        settings = self.settings
        replies = self._no_replies.copy()
        todo = index
        for _ in range(_MAX_START_DRAWS):
            drawn = starts or [settings.source.sample(self._rngs[row]) for row in todo.tolist()]
            for position in drawn:
                if getattr(position, "shape", None) != (8,) or position.dtype != np.uint64:
                    checked_start(position, settings.fifty_move, settings.source.name)
            self.boards.place(
                todo, np.array(drawn, np.uint64), settings.fifty_move, settings.drawn_at
            )
            for row in todo[self.boards.status[todo] != _ONGOING].tolist():
                origin = f"start_positions {settings.source.name!r}"
                checked_start(self.boards.positions[row], settings.fifty_move, origin)
            if settings.opponent is None:
                return replies
            turn_is_white = self.boards.white_to_move(todo)
            self.learner_is_white[todo] = self._learner_colors(todo, turn_is_white)
            opening = self.reply(todo[self.learner_is_white[todo] != turn_is_white])
            replies[todo] = opening[todo]
            todo = todo[self.boards.status[todo] != _ONGOING]
            if len(todo) == 0:
                return replies
            if starts:
                status = STATUS_NAMES[self.boards.status[todo[0]]]
                raise ValueError(
                    f"the opponent's first move on board {todo[0]} ends the game ({status}): give another FEN"
                )
        raise RuntimeError(
            f"{_MAX_START_DRAWS} starts in a row from {settings.source.name!r} ended with the opponent's first move; "
            "use start positions with more play in them"
        )

    def advance(self, index: Index, actions: Index) -> None:
        """Makes one legal move on each of the boards `index` [n]."""
        rules = self.settings.fifty_move, self.settings.drawn_at
        self.settings.threads.over(
            len(index),
            lambda part: self.boards.advance(index[part], actions[part], *rules),
            least=LEAST_PART,
        )

    def look_ahead(self, actions: Index) -> tuple[Positions, Statuses]:
        """(uint64 [N, G, 8] the positions after each legal action [N, G], int8 [N, G] their status); nothing moves."""
        rules = self.settings.fifty_move, self.settings.drawn_at
        found = self.settings.threads.over(
            len(actions),
            lambda part: self.boards.rows(part).look_ahead(actions[part], *rules),
            least=max(1, LEAST_PART // max(1, actions.shape[1])),
        )
        if len(found) == 1:
            return found[0]
        children, status = zip(*found, strict=True)
        return np.concatenate(children), np.concatenate(status)

    def reply(self, index: Index) -> Index:
        """int64 [N]: the opponent's actions, already made, where a game on `index` goes on; -1 elsewhere.

        Raises:
            RuntimeError: the opponent answered with an illegal action.
        """
        opponent = self.settings.opponent
        if opponent is None:
            return self._no_replies
        replies = self._no_replies.copy()
        index = index[self.boards.status[index] == _ONGOING]
        if len(index) == 0:
            return replies
        chosen = opponent.choose(self.boards.positions[index], [self._rngs[row] for row in index])
        actions = checked_choice(opponent, chosen, len(index))
        replies[index] = actions
        illegal = self.boards.illegal(replies)[1][index]
        if illegal.any():
            bad = int(np.argmax(illegal))
            raise player_error(
                opponent, int(actions[bad]), to_fen(self.boards.positions[index[bad]])
            )
        self.advance(index, actions)
        return replies

    def resolve_illegal(self, actions: Index, illegal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool [N]: True where an illegal action ends the game; with "resample", `actions` is changed in place.

        Raises:
            ValueError: an action is no action id at all, or is illegal where `illegal_action="raise"`.
        """
        rows = np.flatnonzero(illegal)
        if len(rows) == 0:
            return illegal
        for row in rows.tolist():
            checked_action(actions[row])
        if self.settings.illegal_action == "terminate":
            return illegal
        if self.settings.illegal_action == "raise":
            raise illegal_action_error(
                int(actions[rows[0]]), to_fen(self.boards.positions[rows[0]])
            )
        for row in rows.tolist():
            slot = int(self._rngs[row].integers(int(self.boards.num_legal[row])))
            actions[row] = self.boards.legal_ids[row, slot]
        return np.zeros_like(illegal)

    def get_state(self) -> dict[str, Any]:
        """Copies of all arrays by name, and the generators as a JSON string."""
        state: dict[str, Any] = {
            name: array.copy() for name, array in self.boards._asdict().items()
        }
        state["learner_is_white"] = self.learner_is_white.copy()
        state["rngs"] = json.dumps([rng.bit_generator.state for rng in self._rngs])
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on exactly from `get_state()`.

        Raises:
            ValueError: the state is of another number of boards, or none that `get_state` could have made.
        """
        learner_is_white = checked_array(state, "learner_is_white", self.learner_is_white)
        rngs = [np.random.default_rng() for _ in self._rngs]
        try:
            for rng, rng_state in zip(rngs, json.loads(str(state["rngs"])), strict=True):
                rng.bit_generator.state = rng_state
        except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise ValueError("the random generators of the state cannot be read") from error
        self.boards.restore(state, self.settings.fifty_move, self.settings.drawn_at)
        self.learner_is_white[:] = learner_is_white
        self._rngs = rngs

    def _learner_colors(self, index: Index, turn_is_white: NDArray[np.bool_]) -> NDArray[np.bool_]:
        choice = self.settings.learner_color
        if choice == "start":
            return turn_is_white
        if choice == "random":
            return np.array([bool(self._rngs[row].integers(2)) for row in index])
        return np.full(len(index), choice == "white")
