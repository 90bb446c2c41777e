"""Start positions drawn from other sources: from a list, filtered, mixed, or fixed to a set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chess_env.custom_objects import shown
from chess_env.evaluators import Evaluator
from chess_env.positions.heldout import is_heldout
from chess_env.rules.packed import Positions
from chess_env.rules.rules import position_hash

MAX_TRIES = 10_000


def no_position(name: str, what: str) -> RuntimeError:
    """The error for a source that `MAX_TRIES` draws in a row could not satisfy."""
    return RuntimeError(
        f"start positions {shown(name)}: {MAX_TRIES} draws in a row gave no position {what}; "
        "loosen the filter, ask for fewer positions, or use another source"
    )


def draw_until(
    draw: Callable[[], Positions], accepts: Callable[[Positions], bool], name: str, what: str
) -> Positions:
    """uint64 [8], the first position that `draw()` gives and that is accepted.

    Args:
        draw: gives a position.
        accepts: whether it will do.
        name: the source's, for the error.
        what: what is asked of a position, such as "outside the held-out table".

    Raises:
        RuntimeError: none of `MAX_TRIES` draws in a row was accepted.
    """
    for _ in range(MAX_TRIES):
        position = draw()
        if accepts(position):
            return position
    raise no_position(name, what)


class PositionList:
    """A uniform draw from given positions (uint64 [K, 8]); the held-out table is the caller's business."""

    def __init__(self, name: str, positions: Positions) -> None:
        self.name = name
        self.positions = positions

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8]; one `integers` draw."""
        return self.positions[rng.integers(len(self.positions))].copy()


class NotHeldout:
    """Another source without the positions of the held-out table; what is no position passes.

    It is checked where games start, with an error that says what gave it.
    """

    def __init__(self, source: Any, name: str) -> None:
        self.name = name
        self._source = source

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8].

        Raises:
            RuntimeError: every one of `MAX_TRIES` draws in a row was held out.
        """

        def is_free(position: Positions) -> bool:
            is_position = position.shape == (8,) and position.dtype == np.uint64
            return not (is_position and is_heldout(position))

        return draw_until(
            lambda: np.asarray(self._source.sample(rng)),
            is_free,
            self.name,
            "outside the held-out table",
        )


class Mixture:
    """Several sources; every position is drawn from one of them, chosen with the given shares.

    Args:
        name: the spec.
        sources: at least one.
        shares: their weights, above 0; only the ratios count.
    """

    def __init__(self, name: str, sources: list[Any], shares: list[float]) -> None:
        if not all(share > 0 for share in shares):
            raise ValueError(f"start_positions is {shown(name)}: shares must be above 0")
        self.name = name
        self._sources = sources
        self._up_to = np.cumsum(shares) / np.sum(shares)

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8]; one `random` draw for the source, then the source's own."""
        index = int(np.searchsorted(self._up_to[:-1], rng.random(), side="right"))
        return self._sources[index].sample(rng)


class Balanced:
    """Another source, only positions that the evaluator scores within +-`limit_cp` centipawns."""

    def __init__(self, source: Any, name: str, evaluator: Evaluator, limit_cp: int) -> None:
        self.name = name
        self.limit_cp = limit_cp
        self._source = source
        self._evaluator = evaluator

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8]; one evaluator query per draw of the source.

        Raises:
            RuntimeError: every one of `MAX_TRIES` draws in a row had a score beyond the limit.
        """

        def is_balanced(position: Positions) -> bool:
            return abs(int(self._evaluator.evaluate(position[None])[0])) <= self.limit_cp

        what = f"with a score within +-{self.limit_cp} centipawns"
        return draw_until(lambda: self._source.sample(rng), is_balanced, self.name, what)


def fixed_set(source: Any, name: str, size: int, seed: int) -> PositionList:
    """A source over `size` positions, distinct by hash, drawn once from `source` with their own generator.

    Raises:
        RuntimeError: `MAX_TRIES` draws in a row gave no further position.
    """
    rng = np.random.default_rng(seed)
    positions: dict[int, Positions] = {}
    misses = 0
    while len(positions) < size:
        position = source.sample(rng)
        misses = (
            0
            if positions.setdefault(int(position_hash(position)), position) is position
            else misses + 1
        )
        if misses >= MAX_TRIES:
            raise no_position(name, f"beyond the first {len(positions)} of {size}")
    return PositionList(name, np.array(list(positions.values()), np.uint64))
