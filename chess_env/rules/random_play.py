"""Uniformly random play, compiled: the raw material of start positions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import announced, kernel
from chess_env.rules.movegen import MAX_LEGAL, apply, legal_actions_of
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, status_of


@kernel
def _walk(start: Positions, uniforms: NDArray[np.float64], path: Positions) -> int:
    """Number of plies played; writes the positions passed to `path` [T + 1, 8], the start first."""
    legal_ids = np.empty(MAX_LEGAL, np.int16)
    path[0] = start
    for ply in range(len(uniforms)):
        count = legal_actions_of(path[ply], legal_ids)
        if status_of(path[ply], count, 0, True, 3) != ONGOING:
            return ply
        slot = min(int(uniforms[ply] * count), count - 1)
        apply(path[ply], legal_ids[slot], path[ply + 1])
    return len(uniforms)


@lru_cache(maxsize=1)
def _compiled_walk() -> Callable[[Positions, NDArray[np.float64], Positions], int]:
    """`_walk`, compiled; the first call tells the user where that takes long."""
    with announced("random play"):
        _walk(np.zeros(8, np.uint64), np.empty(0), np.empty((1, 8), np.uint64))
    return _walk


def random_walk(start: Positions, num_plies: int, rng: np.random.Generator) -> Positions:
    """uint64 [n + 1, 8]: the start and the positions after each of up to `num_plies` random plies.

    Shorter when the game ends on the way (mate, stalemate, dead position, fifty moves); the last
    position may be such an end. Draws `rng.random(num_plies)`, whatever happens.
    """
    path = np.empty((num_plies + 1, 8), np.uint64)
    played = _compiled_walk()(start, rng.random(num_plies), path)
    return path[: played + 1]
