"""The C = `NUM_PLANES` observation planes, named once: uint8 [C, 8, 8], seen from the side to move.

Row r, column f of a plane is square 8 * r + f of the mover's view: row 0 is the mover's own back
rank, whichever colour it plays. No history is needed to play on: the planes determine the legal
moves, the rule-50 clock and how often the position occurred.

A plane is one row of `PLANES` and one line in each encoder: `encode` here, `planes_of` of the learner
(on the device), and `observation` of the readable environment (on a python-chess board).
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import inlined, kernel
from chess_env.rules.bitboards import U0, U1, lowest_square
from chess_env.rules.packed import (
    OWN,
    STATE,
    Positions,
    en_passant_square,
    rule50_clock,
)
from chess_env.rules.rules import as_batch

MAX_RULE50 = 100
MAX_REPETITIONS = 2


class Plane(NamedTuple):
    """One plane: its name, its largest value, and what it says."""

    name: str
    high: int
    meaning: str


PLANES = (
    *(
        Plane(f"{side}_{piece}", 1, f"1 where the {side} has a {piece}")
        for side in ("mover", "opponent")
        for piece in ("pawn", "knight", "bishop", "rook", "queen", "king")
    ),
    Plane("mover_castles_kingside", 1, "all 1 while the mover may still castle king's side"),
    Plane("mover_castles_queenside", 1, "all 1 while the mover may still castle queen's side"),
    Plane("opponent_castles_kingside", 1, "all 1 while the opponent may still castle king's side"),
    Plane(
        "opponent_castles_queenside", 1, "all 1 while the opponent may still castle queen's side"
    ),
    Plane("en_passant", 1, "1 on the target square of a legal en passant capture"),
    Plane(
        "repetitions",
        MAX_REPETITIONS,
        "all: earlier occurrences of this position in the game, 2 standing for more",
    ),
    Plane(
        "rule50_clock",
        MAX_RULE50,
        "all: half-moves since the last capture or pawn move, 100 standing for more",
    ),
)
NUM_PLANES = len(PLANES)

_namedtuple: Any = namedtuple  # a type checker wants the names as literals
PLANE_INDEX: Any = _namedtuple("PlaneIndex", [plane.name for plane in PLANES])(*range(NUM_PLANES))
"""Each plane's number by its name, `PLANE_INDEX.en_passant`; compiled kernels read it as a constant."""


def plane_bounds() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(low, high), uint8 [C, 8, 8] each: the bounds of the observation space."""
    high = np.empty((NUM_PLANES, 8, 8), np.uint8)
    high[:] = np.array([plane.high for plane in PLANES], np.uint8)[:, None, None]
    return np.zeros_like(high), high


@inlined
def encode(position: Positions, repetitions: int, planes: NDArray[np.uint8]) -> None:
    """Writes the observation to `planes`, uint8 [C, 64]."""
    own = position[OWN]
    planes[:] = 0
    for kind in range(6):
        men = position[kind] & own
        while men:
            planes[PLANE_INDEX.mover_pawn + kind, lowest_square(men)] = 1
            men &= men - U1
        men = position[kind] & ~own
        while men:
            planes[PLANE_INDEX.opponent_pawn + kind, lowest_square(men)] = 1
            men &= men - U1
    for right in range(4):
        if position[STATE] >> np.uint64(right) & U1 != U0:
            planes[PLANE_INDEX.mover_castles_kingside + right] = 1
    target = en_passant_square(position)
    if target:
        planes[PLANE_INDEX.en_passant, target] = 1
    if repetitions:
        planes[PLANE_INDEX.repetitions] = min(repetitions, MAX_REPETITIONS)
    clock = rule50_clock(position)
    if clock:
        planes[PLANE_INDEX.rule50_clock] = min(clock, MAX_RULE50)


@kernel
def _encode_batch(
    positions: Positions, repetitions: NDArray[np.uint8], planes: NDArray[np.uint8]
) -> None:
    for i in range(positions.shape[0]):
        encode(positions[i], repetitions[i], planes[i])


def encode_batch(
    positions: Positions, repetitions: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """uint8 [N, C, 8, 8]: the observations of packed positions [N, 8].

    `repetitions` (uint8 [N]) counts earlier occurrences in each game; None means none.
    """
    positions = as_batch(positions)
    if repetitions is None:
        repetitions = np.zeros(len(positions), np.uint8)
    planes = np.empty((len(positions), NUM_PLANES, 64), np.uint8)
    _encode_batch(positions, repetitions, planes)
    return planes.reshape(-1, NUM_PLANES, 8, 8)
