"""A look two plies ahead: the policy's first moves, every reply to them, and an evaluator at the end.

It is no part of a policy. A program that plays asks for it, and no figure of a policy is measured with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import chess
import numpy as np
from numpy.typing import NDArray

from algorithms.playing.conversation import Line
from algorithms.playing.position import GamePosition
from chess_env.evaluators import MATE_SCORE, MAX_CP, Evaluator
from chess_env.evaluators.protocol import scores_of
from chess_env.moves import action_to_move
from chess_env.rules.fen import pack_board
from chess_env.rules.packed import Positions
from chess_env.rules.rules import (
    CHECKMATE,
    FIFTY_MOVES,
    ONGOING,
    apply_batch,
    hash_batch,
    legal_actions_batch,
    status_batch,
)


def look_ahead(
    position: GamePosition, actions: Sequence[int], evaluator: Evaluator
) -> tuple[Line, ...]:
    """The moves `actions` and the best reply to each, the best move first; of equal ones the one that stood first.

    A move is worth what the evaluator says after the reply that is worst for the mover. The rules come first: mate,
    stalemate, too little material, the fifty-move rule, and a position that has occurred in the game, which counts as
    a draw from the second time on, as in the search of an engine: the third could be the opponent's choice.

    Args:
        position: with at least one legal move, and with the game before it.
        actions: ids of at least one of its legal moves.
        evaluator: scores all positions after a reply in one batch.

    Raises:
        EngineError: the evaluator failed.
    """
    packed = pack_board(position.board)[None]
    earlier = hash_batch(position.line)
    after = apply_batch(np.repeat(packed, len(actions), axis=0), np.array(actions))
    status = status_batch(after)
    own_cp = np.where(status == CHECKMATE, MATE_SCORE, 0)
    goes_on = np.flatnonzero((status == ONGOING) & ~np.isin(hash_batch(after), earlier))
    replies: dict[int, int] = {}
    if len(goes_on):
        legal_ids, num_legal = legal_actions_batch(after[goes_on])
        reply_ids = legal_ids[legal_ids >= 0]
        leaves = apply_batch(np.repeat(after[goes_on], num_legal, axis=0), reply_ids)
        leaf_cp = _leaf_scores(leaves, earlier, evaluator)
        ends = np.cumsum(num_legal).tolist()
        for slot, start, end in zip(goes_on.tolist(), [0, *ends], ends, strict=False):
            worst = start + int(np.argmin(leaf_cp[start:end]))
            own_cp[slot], replies[slot] = leaf_cp[worst], int(reply_ids[worst])
    order = np.argsort(-own_cp, kind="stable").tolist()
    return tuple(
        _line(position.board, int(actions[slot]), replies.get(slot), int(own_cp[slot]))
        for slot in order
    )


def _leaf_scores(
    leaves: Positions, earlier: NDArray[np.uint64], evaluator: Evaluator
) -> NDArray[np.int64]:
    """int64 [N]: of positions after a reply, from the view of the side to move, which moved first."""
    scores = scores_of(evaluator, leaves).astype(np.int64)
    # Being mated is counted in the opponent's moves after ours, of which the reply was one.
    scores = np.where(scores < -MAX_CP, scores + 1, scores)
    drawn = (status_batch(leaves) == FIFTY_MOVES) | np.isin(hash_batch(leaves), earlier)
    return np.where(drawn, 0, scores)


def _line(board: chess.Board, action: int, reply: int | None, score_cp: int) -> Line:
    move = action_to_move(action, board)
    if reply is None:
        return Line((move,), score_cp)
    after = board.copy(stack=False)
    after.push(move)
    return Line((move, action_to_move(reply, after)), score_cp)
