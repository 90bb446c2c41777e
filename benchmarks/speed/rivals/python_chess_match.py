"""The rivals of the arena: a policy against a random player on python-chess, one game after another.

`tuned` spends as little as Python allows: own repetition count, planes and action ids by table, and only on the
policy's turns. `plain` is what one writes first: the readable environment's observation and action ids, and
python-chess's own tests for the end of the game after every ply.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import chess
import numpy as np

from benchmarks.speed.rivals.python_chess_loop import ids_of, planes_of
from chess_env.games.reference_game import observation
from chess_env.moves import action_to_move, legal_actions

# (planes uint8 [19, 8, 8], ids of the legal actions) -> slot of the most probable one
Choose = Callable[[np.ndarray, np.ndarray], int]


def tuned(
    board: chess.Board, policy_is_white: bool, choose: Choose, rng: random.Random, max_plies: int
) -> int:
    """Number of plies played from `board`."""
    seen: dict[object, int] = {}
    for ply in range(max_plies):
        key = board._transposition_key()
        earlier = seen.get(key, 0)
        seen[key] = earlier + 1
        legal = list(board.legal_moves)
        over = board.halfmove_clock >= 100 or earlier >= 2 or board.is_insufficient_material()
        if over or not legal:
            return ply
        if board.turn == policy_is_white:
            slot = choose(planes_of(board, earlier), np.array(ids_of(board, legal), np.int16))
        else:
            slot = int(rng.random() * len(legal))
        if board.is_zeroing(legal[slot]):
            seen = {}
        board.push(legal[slot])
    return max_plies


def plain(
    board: chess.Board, policy_is_white: bool, choose: Choose, rng: random.Random, max_plies: int
) -> int:
    """Number of plies played from `board`."""
    keys = []
    for ply in range(max_plies):
        # Not `claim_draw=True`: that also ends a game one ply early, where a move could repeat.
        if board.is_game_over() or board.is_repetition(3) or board.is_fifty_moves():
            return ply
        key = board._transposition_key()
        if board.turn == policy_is_white:
            actions = legal_actions(board)
            planes = observation(board, keys.count(key))
            move = action_to_move(int(actions[choose(planes, actions)]), board)
        else:
            move = rng.choice(list(board.legal_moves))
        keys.append(key)
        board.push(move)
    return max_plies
