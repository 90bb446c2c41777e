"""Any UCI engine as a player: a process of its own, spoken to through python-chess."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Mapping
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators.uci import EngineError
from chess_env.games.players import Generators
from chess_env.games.so_far import GamesSoFar
from chess_env.moves import action_to_move, move_to_action
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import Positions

LIMITS = "nodes=N, depth=N or movetime_ms=N"
_LIMIT = re.compile(r"(nodes|depth|movetime_ms)=([1-9]\d{0,11})")


def checked_limit(text: str) -> str:
    """The limit of a search itself.

    Raises:
        ValueError: none of `LIMITS`.
    """
    if _LIMIT.fullmatch(text) is None:
        raise ValueError(f"limit {text!r}: expected {LIMITS}, N a whole number from 1 on")
    return text


class UciPlayer:
    """Plays an engine's own move within a limit. The engine is cleared (`ucinewgame`) before each move.

    Args:
        command: the program and its arguments, as in a shell.
        limit: one of `LIMITS`.
        options: UCI options that are set, by name.

    Raises:
        ValueError: no such limit, or no command.
        EngineError: the program cannot be started, is no UCI engine, or does not take an option; names the command.
    """

    def __init__(
        self, command: str, limit: str, options: Mapping[str, int | bool] | None = None
    ) -> None:
        import chess.engine

        kind, number = checked_limit(limit).split("=")
        options = options or {}
        said = [f"{name}={value}" for name, value in options.items()]
        self.name = f"{command} ({', '.join([limit, *said])})"
        self._limit = (
            chess.engine.Limit(time=int(number) / 1000)
            if kind == "movetime_ms"
            else chess.engine.Limit(**{kind: int(number)})
        )
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"engine {command!r}: {error}; close the quotation mark") from None
        if not words:
            raise ValueError("engine '' is no command: give a program and its arguments")
        try:
            # In a process group of its own: Ctrl-C is for this process, which then quits the engine.
            self._engine: Any = chess.engine.SimpleEngine.popen_uci(words, setpgrp=True)
        except (OSError, chess.engine.EngineError) as error:
            why = str(error) or "no answer to `uci`"
            raise EngineError(
                f"engine {command!r} does not start as a UCI engine ({why}): give its program, with the whole path, "
                "and its arguments"
            ) from error
        try:
            self._engine.configure(options)
        except (chess.engine.EngineError, TimeoutError) as error:
            self.close()
            raise EngineError(
                f"engine {command!r} does not take {', '.join(said)}: {error or 'no answer'}"
            ) from error

    @property
    def program(self) -> str:
        """What the engine calls itself, such as `Stockfish 15.1`."""
        return str(self._engine.id.get("name", self.name))

    def choose(self, positions: Positions, rngs: Generators) -> NDArray[np.int64]:
        """int64 [N]; the engine is told the position alone, with its clocks.

        Raises:
            EngineError: the engine died, or gave no legal move; names it and the position.
        """
        boards = [chess.Board(to_fen(position)) for position in positions]
        return np.array([self._move(board) for board in boards], np.int64)

    def choose_in_games(
        self, positions: Positions, games: GamesSoFar, rngs: Generators
    ) -> NDArray[np.int64]:
        """int64 [N], as `choose`; the engine is told the moves of each game."""
        chosen = []
        for start, actions in zip(games.starts, games.moves, strict=True):
            board = chess.Board(to_fen(start))
            for action in actions:
                board.push(action_to_move(action, board))
            chosen.append(self._move(board))
        return np.array(chosen, np.int64)

    def close(self) -> None:
        """Asks the engine to quit, and ends it where it does not."""
        import chess.engine

        with contextlib.suppress(chess.engine.EngineError, TimeoutError):
            self._engine.quit()
        self._engine.close()

    def _move(self, board: chess.Board) -> int:
        import chess.engine

        try:
            move = self._engine.play(board, self._limit, game=object()).move
        except (chess.engine.EngineError, TimeoutError) as error:
            why = str(error) or "it does not answer"
            raise EngineError(
                f"engine {self.name} gave no move in {board.fen()!r} ({why}): try it alone, or another limit"
            ) from error
        if move is None:
            raise EngineError(
                f"engine {self.name} gave no move in {board.fen()!r}, where there are {board.legal_moves.count()}"
            )
        return move_to_action(move, board.turn)
