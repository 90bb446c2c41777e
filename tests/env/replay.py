"""The oracle of matches: python-chess plays a game again and says how it ended."""

from __future__ import annotations

import chess

from benchmarks.matches.client import ending_of
from chess_env.matches.match_result import Game
from chess_env.moves import action_to_move
from chess_env.rules.fen import to_fen

VALUES_CP = {
    chess.PAWN: 100,
    chess.KNIGHT: 300,
    chess.BISHOP: 300,
    chess.ROOK: 500,
    chess.QUEEN: 900,
}


def lead_cp(board: chess.Board, color: chess.Color) -> int:
    return sum(
        value * (len(board.pieces(kind, color)) - len(board.pieces(kind, not color)))
        for kind, value in VALUES_CP.items()
    )


def replay(game: Game, max_plies: int) -> tuple[str, float, int, int, int]:
    """(ending, points, final lead, largest lead of the first and of the second), every move checked for legality."""
    board = chess.Board(to_fen(game.opening))
    first = chess.WHITE if game.first_is_white else chess.BLACK
    best = {chess.WHITE: 0, chess.BLACK: 0}
    for action in game.actions.tolist():
        assert ending_of(board) is None, (board.fen(), "the game went on after its end")
        best[board.turn] = max(best[board.turn], lead_cp(board, board.turn))
        move = action_to_move(action, board)
        assert board.is_legal(move), (board.fen(), move)
        board.push(move)
    ending = ending_of(board)
    if ending is None:
        assert len(game.actions) == max_plies
        ending = "ply_limit"
    points = 0.5 if ending != "checkmate" else float(board.turn != first)
    return ending, points, lead_cp(board, first), best[first], best[not first]
