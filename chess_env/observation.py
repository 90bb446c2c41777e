"""The C = `NUM_PLANES` observation planes, named once: uint8 [C, 8, 8], seen from the side to move.

Row r, column f of a plane is square 8 * r + f of the mover's view: row 0 is the mover's own back
rank, whichever colour it plays. No history is needed to play on: the planes determine the legal
moves, the rule-50 clock and how often the position occurred.

A new plane is one row of `PLANES`, which both encoders read: `encode` here, and `planes_of` of the learner (on the
device).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chess_env.jit import inlined, kernel
from chess_env.rules import packed
from chess_env.rules.bitboards import U0, U1, lowest_square
from chess_env.rules.packed import Positions, en_passant_square
from chess_env.rules.rules import as_batch

MAX_REPETITIONS = 2


class Everywhere(NamedTuple):
    """What a plane shows that is the same on all squares.

    Attributes:
        shift, mask: the bits `word >> shift & mask` of a packed position's word `STATE`.
    """

    shift: int
    mask: int


class OnSquares(NamedTuple):
    """What a plane shows that is 1 on some squares and 0 on the others.

    The learner's device has no such function: it is given these planes by the CPU, which takes a copy on CUDA.

    Attributes:
        of_position: from a packed position, uint64 [8], to the squares, uint64, in the mover's view; it is compiled
            by numba.
    """

    of_position: Callable[[Positions], np.uint64]


class Plane(NamedTuple):
    """One plane: its name, its largest value, what it says, and how. None: the encoders have a line for it."""

    name: str
    high: int
    meaning: str
    shown: Everywhere | OnSquares | None = None


PLANES = (
    *(
        Plane(f"{side}_{piece}", 1, f"1 where the {side} has a {piece}")
        for side in ("mover", "opponent")
        for piece in ("pawn", "knight", "bishop", "rook", "queen", "king")
    ),
    *(
        Plane(
            f"{side}_castles_{wing}side",
            1,
            f"all 1 while the {side} may still castle {wing}'s side",
            Everywhere(bit, 1),
        )
        for bit, (side, wing) in enumerate(product(("mover", "opponent"), ("king", "queen")))
    ),
    Plane("en_passant", 1, "1 on the target square of a legal en passant capture"),
    Plane(
        "repetitions",
        MAX_REPETITIONS,
        "all: earlier occurrences of this position in the game, 2 standing for more",
    ),
    Plane(
        "rule50_clock",
        100,
        "all: half-moves since the last capture or pawn move, 100 standing for more",
        Everywhere(int(packed.CLOCK_SHIFT), int(packed.WORD_MASK)),
    ),
)
NUM_PLANES = len(PLANES)

_namedtuple: Any = namedtuple  # a type checker wants the names as literals
PLANE_INDEX: Any = _namedtuple("PlaneIndex", [plane.name for plane in PLANES])(*range(NUM_PLANES))
"""Each plane's number by its name, `PLANE_INDEX.en_passant`; compiled kernels read it as a constant."""

EVERYWHERE = [
    (row, plane.high, plane.shown)
    for row, plane in enumerate(PLANES)
    if isinstance(plane.shown, Everywhere)
]
"""(number, largest value, how it is shown) of each plane that is the same on all squares."""

ON_SQUARES = [
    (row, plane.shown) for row, plane in enumerate(PLANES) if isinstance(plane.shown, OnSquares)
]
"""(number, how it is shown) of each plane that is 1 on some squares."""
# Tuples, because the compiler knows their values; it reads arrays at each call.
_ROWS = tuple(row for row, _, _ in EVERYWHERE)
_SHIFTS = tuple(np.uint64(shown.shift) for _, _, shown in EVERYWHERE)
_MASKS = tuple(np.uint64(shown.mask) for _, _, shown in EVERYWHERE)
_HIGHS = tuple(np.uint64(high) for _, high, _ in EVERYWHERE)


def plane_bounds() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(low, high), uint8 [C, 8, 8] each: the bounds of the observation space."""
    high = np.empty((NUM_PLANES, 8, 8), np.uint8)
    high[:] = np.array([plane.high for plane in PLANES], np.uint8)[:, None, None]
    return np.zeros_like(high), high


@inlined
def _encode_on_squares(position: Positions, planes: NDArray[np.uint8]) -> None:
    """Writes the planes of `ON_SQUARES`."""


def _and(write: Any, row: int, of_position: Callable[[Positions], np.uint64]) -> Any:
    """`write` and then one plane more: a kernel cannot look a function up in a list."""
    squares_of = inlined(of_position)

    @inlined
    def write_both(position: Positions, planes: NDArray[np.uint8]) -> None:
        write(position, planes)
        squares = squares_of(position)
        while squares:
            planes[row, lowest_square(squares)] = 1
            squares &= squares - U1

    return write_both


for _row, _shown in ON_SQUARES:
    _encode_on_squares = _and(_encode_on_squares, _row, _shown.of_position)


@inlined
def encode(position: Positions, repetitions: int, planes: NDArray[np.uint8]) -> None:
    """Writes the observation to `planes`, uint8 [C, 64]."""
    own = position[packed.OWN]
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
    for i in range(len(_ROWS)):
        shown = position[packed.STATE] >> _SHIFTS[i] & _MASKS[i]
        if shown != U0:
            planes[_ROWS[i]] = min(shown, _HIGHS[i])
    _encode_on_squares(position, planes)
    target = en_passant_square(position)
    if target:
        planes[PLANE_INDEX.en_passant, target] = 1
    if repetitions:
        planes[PLANE_INDEX.repetitions] = min(repetitions, MAX_REPETITIONS)


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
