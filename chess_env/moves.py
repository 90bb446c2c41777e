"""The 1,858 actions: every move the side to move can ever make, seen from its own side of the board.

Black's board is flipped vertically, so both players share one numbering. Actions 0 .. 1791 are the
from-to pairs that a queen or a knight can make on an empty board, ordered by (from, to); a pawn that
reaches the last rank this way becomes a queen, and castling is the king's two-square step. Actions
1792 .. 1857 are the 66 under-promotions, ordered by (from, to, knight < bishop < rook).
"""

from __future__ import annotations

import chess
import numpy as np
from numpy.typing import NDArray

NUM_ACTIONS = 1858
NUM_FROM_TO = 1792
UNDERPROMOTIONS = (chess.KNIGHT, chess.BISHOP, chess.ROOK)


def _is_queen_or_knight_shaped(start: int, end: int) -> bool:
    ranks, files = abs(start // 8 - end // 8), abs(start % 8 - end % 8)
    queen = start != end and (ranks == 0 or files == 0 or ranks == files)
    return queen or {ranks, files} == {1, 2}


def _action_table() -> list[tuple[int, int, int]]:
    """(from, to, promotion) of every action in order; squares from the mover's side, 0 = no under-promotion."""
    pairs = [(f, t, 0) for f in range(64) for t in range(64) if _is_queen_or_knight_shaped(f, t)]
    for start in range(48, 56):
        for end in range(start + 7, start + 10):
            if end // 8 == 7 and abs(end % 8 - start % 8) <= 1:
                pairs += [(start, end, piece) for piece in UNDERPROMOTIONS]
    return pairs


_TABLE = np.array(_action_table(), np.int64)
ACTION_FROM: NDArray[np.int64] = _TABLE[:, 0].copy()  # [1858] mover's-view square
ACTION_TO: NDArray[np.int64] = _TABLE[:, 1].copy()  # [1858] mover's-view square
ACTION_PROMOTION: NDArray[np.int64] = _TABLE[:, 2].copy()  # [1858] 0, or 2 N, 3 B, 4 R
# int16 [64, 64]: the action of a from-to pair; -1 where no piece moves that way.
FROM_TO_ACTION: NDArray[np.int16] = np.full((64, 64), -1, np.int16)
FROM_TO_ACTION[_TABLE[:NUM_FROM_TO, 0], _TABLE[:NUM_FROM_TO, 1]] = np.arange(NUM_FROM_TO)
_UNDERPROMOTION_ACTION = {
    (int(f), int(t), int(p)): NUM_FROM_TO + i for i, (f, t, p) in enumerate(_TABLE[NUM_FROM_TO:])
}


def move_to_action(move: chess.Move, turn: chess.Color) -> int:
    """Action id (0 .. 1857) of a move made by `turn` (chess.WHITE or chess.BLACK).

    Raises:
        ValueError: the move is not of a shape any piece can make (null move, a1-b4, drops, king promotions).
    """
    flip = 0 if turn else 56
    start, end = move.from_square ^ flip, move.to_square ^ flip
    if move.promotion in UNDERPROMOTIONS:
        action = _UNDERPROMOTION_ACTION.get((start, end, move.promotion), -1)
    elif move.promotion in (None, chess.QUEEN) and move.drop is None:
        action = int(FROM_TO_ACTION[start, end])
    else:
        action = -1
    if action < 0:
        raise ValueError(
            f"move {move.uci()!r} by {chess.COLOR_NAMES[turn]} has no action: expected a queen- or "
            "knight-shaped move or an under-promotion; take moves from board.legal_moves"
        )
    return action


def action_to_move(action: int, board: chess.Board) -> chess.Move:
    """The move that an action means for the side to move on `board`; legality is not checked.

    Raises:
        ValueError: the action is outside 0 .. 1857.
    """
    if not 0 <= action < NUM_ACTIONS:
        raise ValueError(
            f"action {action} is outside 0 .. {NUM_ACTIONS - 1}; take actions from legal_actions(board)"
        )
    flip = 0 if board.turn else 56
    start, end = int(ACTION_FROM[action]) ^ flip, int(ACTION_TO[action]) ^ flip
    promotion = int(ACTION_PROMOTION[action]) or None
    if (
        promotion is None
        and chess.square_rank(end) in (0, 7)
        and board.pawns & chess.BB_SQUARES[start]
    ):
        promotion = chess.QUEEN
    return chess.Move(start, end, promotion)


def legal_actions(board: chess.Board) -> NDArray[np.int16]:
    """int16 [L]: ids of all legal moves of the side to move, ascending; empty when the game is over."""
    return np.array(
        sorted(move_to_action(move, board.turn) for move in board.legal_moves), np.int16
    )
