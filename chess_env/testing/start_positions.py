"""The contract of every source of start positions; see `chess_env.positions.start_positions.StartPositions`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chess_env.positions.heldout import is_heldout
from chess_env.positions.start_positions import make_start_positions
from chess_env.rules.fen import parse_fen, to_fen
from chess_env.rules.rules import ONGOING, STATUS_NAMES, status_batch
from chess_env.testing import rule


def check_start_positions(source: Any, *, samples: int = 64) -> None:
    """Checks that a source of start positions keeps its contract.

    Args:
        source: an object with `sample(rng)`, or a spec such as "mymodule:MySource".
        samples: how many positions are drawn, from each of two seeds.

    Raises:
        ContractError: what broke: the method, dtype and shape, a legal position in which the game goes on, held-out
            positions, one generator as the only source of chance, no memory between draws, arrays of their own.
    """
    rule(
        isinstance(source, str) or callable(getattr(source, "sample", None)),
        "a source of start positions has a method sample(rng); this one has not",
    )
    made = make_start_positions(source)  # held-out positions are drawn again there
    rule(
        isinstance(made.name, str) and made.name != "",
        f"name must be a text that is not empty, not {made.name!r}",
    )
    for seed in (0, 1):
        first = _draw(made, seed, samples)
        for position in first:
            _check_position(position)
        first = [position.copy() for position in first]
        # What NumPy's global generator says in between must not matter.
        np.random.seed(seed + 17)  # noqa: NPY002
        again = _draw(made, seed, samples)
        rule(
            all(np.array_equal(one, other) for one, other in zip(first, again, strict=True)),
            "the same generator state must give the same positions: draw from `rng` alone, and remember nothing "
            "from draw to draw (a continued run restores the generator, not the source)",
        )
        if again[0].flags.writeable:
            again[0][:] = 0
            rule(
                np.array_equal(_draw(made, seed, 1)[0], first[0]),
                "each sample must be an array of its own: writing into one changed a later one",
            )


def _draw(source: Any, seed: int, count: int) -> list[NDArray[np.uint64]]:
    rng = np.random.default_rng(seed)
    return [source.sample(rng) for _ in range(count)]


def _check_position(position: Any) -> None:
    shown = (
        f"{position.dtype} {list(position.shape)}"
        if isinstance(position, np.ndarray)
        else f"a {type(position).__name__}"
    )
    rule(
        isinstance(position, np.ndarray) and position.dtype == np.uint64 and position.shape == (8,),
        f"sample must give a packed position, uint64 [8] (chess_env.rules.fen.parse_fen makes one), not {shown}",
    )
    try:
        fen = to_fen(position)
        legal = np.array_equal(parse_fen(fen), position)
    except ValueError as error:
        fen, legal = str(error), False
    rule(legal, f"a start position must be legal chess: {fen}")
    status = int(status_batch(position[None])[0])
    rule(
        status == ONGOING,
        f"the game must go on in a start position: {fen} is {STATUS_NAMES[status]}",
    )
    rule(not is_heldout(position), f"a start position must not be held out for evaluation: {fen}")
