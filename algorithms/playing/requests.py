"""Requests to the engine in a position, and its answers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import chess

    from algorithms.playing.position import GamePosition


@dataclasses.dataclass(frozen=True)
class Request:
    """A position and how a move is to be chosen in it.

    Attributes:
        position: the position.
        temperature: of the softmax; 0 chooses the most probable move.
        top_k: number of most probable moves to choose from; 0 for all.
        seed: of the choice; None gives another choice every time.
        searchmoves: legal moves to choose from; None for all.
    """

    position: GamePosition
    temperature: float
    top_k: int
    seed: int | None
    searchmoves: tuple[chess.Move, ...] | None


@dataclasses.dataclass(frozen=True)
class Answer:
    """The moves to choose from and the one chosen.

    Attributes:
        moves: most probable first.
        probs: of each, by the policy over *all* legal moves, at the request's temperature, or at
            temperature 1 where that is 0.
        best: the chosen move; None where no move is legal.
    """

    moves: tuple[chess.Move, ...]
    probs: tuple[float, ...]
    best: chess.Move | None
