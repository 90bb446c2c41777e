"""Forced mates in a few moves, by trying every move of both sides: what is found is a proof, and so is what is not."""

from __future__ import annotations

import numpy as np

from chess_env.jit import announced, kernel
from chess_env.rules.movegen import MAX_LEGAL, apply, in_check, legal_actions_of
from chess_env.rules.packed import Positions

MOST_MOVES = 3
"""Of a mate: one more takes a thousand times as long."""


@kernel
def _is_lost(position: Positions, moves: int) -> bool:
    """Whether the side to move is mated, or will be in at most `moves` moves of its opponent."""
    replies = np.empty(MAX_LEGAL, np.int16)
    count = legal_actions_of(position, replies)
    if count == 0:
        return in_check(position)
    if moves == 0:
        return False
    after, then = np.empty(8, np.uint64), np.empty(8, np.uint64)
    moves_there = np.empty(MAX_LEGAL, np.int16)
    for reply in range(count):
        apply(position, replies[reply], after)
        mates = False
        for move in range(legal_actions_of(after, moves_there)):
            apply(after, moves_there[move], then)
            # The last move has to check: few do, and the others need no list of replies.
            if (moves > 1 or in_check(then)) and _is_lost(then, moves - 1):
                mates = True
                break
        if not mates:
            return False
    return True


def mates_within(position: Positions, action: int, moves: int) -> bool:
    """Whether a legal action begins a forced mate in at most `moves` moves of the side to move, this one counted.

    Draws by repetition and by the fifty-move rule are not looked at, as in the EPD standard's `dm`.

    Args:
        position: uint64 [8].
        action: legal there.
        moves: 1 to `MOST_MOVES`.

    Raises:
        ValueError: another number of moves.
    """
    if not 1 <= moves <= MOST_MOVES:
        raise ValueError(
            f"moves is {moves}: expected 1 to {MOST_MOVES}, which can be searched whole"
        )
    after = np.empty(8, np.uint64)
    with announced("the search for mates", _is_lost):
        apply(position, action, after)
        return bool(_is_lost(after, moves - 1))
