"""The picture of a place in a game, with the policy's moves as arrows."""

from __future__ import annotations

import chess

from algorithms.board.positions import Game
from algorithms.playing.view import PositionView
from algorithms.reports.page.diagrams import MoveChance, position_svg

ARROWS = 12
LEAST = 0.01
"""Moves that are less probable get no arrow."""


def picture(game: Game, view: PositionView | None, *, black_below: bool) -> str:
    """SVG of the position; it refers to `boards.definitions`."""
    board = game.board
    marks = dict.fromkeys(_squares(board.move_stack[-1]), "last") if board.move_stack else {}
    king = board.king(board.turn)
    if king is not None and board.is_check():
        marks[king] = "check"
    arrows = [] if view is None else arrows_of(view)
    said = ", ".join(f"{arrow.uci} {arrow.probability:.0%}" for arrow in arrows)
    turn = chess.COLOR_NAMES[board.turn].capitalize()
    label = f"{turn} to move" + (f": {said}" if said else "")
    return position_svg(board.fen(), arrows, label=label, black_below=black_below, marks=marks)


def arrows_of(view: PositionView) -> list[MoveChance]:
    """The likeliest moves, likeliest first; promotions between the same squares are one arrow."""
    found: dict[tuple[int, int], MoveChance] = {}
    for each in view.moves:
        move = chess.Move.from_uci(each.uci)
        before = found.get(_squares(move))
        found[_squares(move)] = MoveChance(
            move.from_square,
            move.to_square,
            each.uci if before is None else f"{before.uci}, {each.uci}",
            each.probability + (0.0 if before is None else before.probability),
        )
    ranked = sorted(found.values(), key=lambda arrow: -arrow.probability)
    return [arrow for arrow in ranked[:ARROWS] if arrow.probability >= LEAST]


def _squares(move: chess.Move) -> tuple[int, int]:
    return move.from_square, move.to_square
