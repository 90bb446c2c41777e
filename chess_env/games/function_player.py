"""A player that is a function of a python-chess board."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import chess
import numpy as np
from numpy.typing import NDArray

from chess_env.moves import move_to_action
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import Positions


class FunctionPlayer:
    """Plays what a function of a python-chess board returns.

    Args:
        function: (chess.Board, np.random.Generator) -> chess.Move. The board has no move history.
    """

    def __init__(self, function: Callable[[chess.Board, np.random.Generator], chess.Move]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def choose(
        self, positions: Positions, rngs: Sequence[np.random.Generator]
    ) -> NDArray[np.int64]:
        """int64 [N].

        Raises:
            ValueError: The function returned something that is not a legal move; names it and the FEN.
        """
        actions = []
        for position, rng in zip(positions, rngs, strict=True):
            fen = to_fen(position)
            board = chess.Board(fen)
            move = self.function(board.copy(), rng)
            if not isinstance(move, chess.Move) or not board.is_legal(move):
                raise ValueError(
                    f"player {self.name!r} returned {move!r} in {fen!r}: expected a chess.Move "
                    "from board.legal_moves"
                )
            actions.append(move_to_action(move, board.turn))
        return np.array(actions, np.int64)

    def close(self) -> None:
        """Does nothing: there is nothing to free."""
