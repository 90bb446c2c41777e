"""Short mates by trying every move of both sides on a python-chess board: slow, and for the generator alone."""

from __future__ import annotations

import chess


def mating_moves(board: chess.Board, num_moves: int) -> list[chess.Move]:
    """The legal moves that force mate within `num_moves` moves of the side to move, the first included.

    Args:
        board: a position; it is the same afterwards. Its history and its clock play no part.
        num_moves: at least 1.
    """
    return [move for move in board.legal_moves if _forces(board, move, num_moves)]


def _forces(board: chess.Board, move: chess.Move, num_moves: int) -> bool:
    """Whether the move mates at once or every reply to it allows mate in one move less."""
    if num_moves == 1 and not board.gives_check(move):
        return False
    board.push(move)
    try:
        replies = list(board.legal_moves)
        if not replies:
            return board.is_check()
        if num_moves == 1 or board.is_insufficient_material():
            return False
        return all(_is_mated_after(board, reply, num_moves - 1) for reply in replies)
    finally:
        board.pop()


def _is_mated_after(board: chess.Board, reply: chess.Move, num_moves: int) -> bool:
    board.push(reply)
    # Most mates begin with a check.
    moves = sorted(board.legal_moves, key=board.gives_check, reverse=True)
    mated = any(_forces(board, move, num_moves) for move in moves)
    board.pop()
    return mated
