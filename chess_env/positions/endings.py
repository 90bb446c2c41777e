"""Won endings with few men: a pool of positions of each, proven by a deep search, from which some are drawn.

`endings.epd` is made by `python -m benchmarks.positions.endings_build`. The stronger side is to move and mates by
force; neither side can take a man at once, and there is no mate in one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chess_env.rules.fen import pack_fens
from chess_env.rules.packed import Positions

ENDINGS = ("KQ-K", "KR-K", "KRR-K", "KQ-KR", "KP-K")
"""The stronger side's men, then the other's."""

ENDINGS_PATH = Path(__file__).with_name("endings.epd")

_LINE = re.compile(r'(?P<fen>\S+ [wb] - -) dm (?P<mate>\d+); id "(?P<ending>[^"]+)";')


@dataclass(frozen=True)
class WonPositions:
    """Some positions of one ending.

    Attributes:
        ending: one of `ENDINGS`.
        positions: uint64 [N, 8], packed, clocks 0 and 1; the stronger side is to move.
        mate_in: int64 [N]: moves of a forced mate, at least as many as best play needs.
    """

    ending: str
    positions: Positions
    mate_in: NDArray[np.int64]


def draw_endings(ending: str, *, seed: int, count: int) -> WonPositions:
    """`count` distinct positions of the pool of one ending, by `seed`.

    Raises:
        ValueError: no such ending, or fewer positions in the pool.
    """
    if ending not in ENDINGS:
        raise ValueError(f"ending is {ending!r}: expected one of {', '.join(ENDINGS)}")
    pool = [
        found
        for line in ENDINGS_PATH.read_text(encoding="utf-8").splitlines()
        if (found := _LINE.fullmatch(line)) is not None and found["ending"] == ending
    ]
    if not 1 <= count <= len(pool):
        raise ValueError(f"count is {count}: expected 1 to {len(pool)}, the pool of {ending}")
    rng = np.random.default_rng([seed, ENDINGS.index(ending)])
    drawn = [pool[k] for k in rng.choice(len(pool), count, replace=False).tolist()]
    return WonPositions(
        ending,
        pack_fens([found["fen"] for found in drawn]),
        np.array([int(found["mate"]) for found in drawn]),
    )
