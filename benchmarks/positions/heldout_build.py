"""Makes the held-out table: draws the positions of each slice and scores all their children.

`python -m benchmarks.positions.heldout_build` describes the committed table; `--rebuild` makes it anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chess_env.evaluators import Evaluator, make_evaluator
from chess_env.evaluators.protocol import scores_of
from chess_env.positions.heldout import HELDOUT_PATH, SLICE_NAMES, read_heldout
from chess_env.positions.openings import opening_positions
from chess_env.positions.phase_mix import PhaseMix
from chess_env.positions.start_positions import InitialPosition, RandomPlies
from chess_env.rules.packed import IDENTITY_BITS, STATE, Positions
from chess_env.rules.rules import ENDGAME, MIDDLEGAME, children, hash_batch, position_hash

SEED = 20_260_101
SLICE_SIZES = {"random_2_40": 512, "middlegame": 320, "endgame": 320, "decided": 320}
DECIDED_CP = 600
_FIRST_MOVE = np.uint64(1 << 32)

Sampler = Callable[[np.random.Generator], Positions]


def _samplers() -> dict[str, Sampler]:
    random_plies = RandomPlies(2, 40, exclude_heldout=False)
    long_random = RandomPlies(20, 150, exclude_heldout=False)
    mix = PhaseMix()

    def decided(rng: np.random.Generator) -> Positions:
        kind = rng.integers(3)
        if kind == 0:
            return long_random.sample(rng)
        return mix.sample_phase(MIDDLEGAME if kind == 1 else ENDGAME, rng)

    return {
        "random_2_40": random_plies.sample,
        "middlegame": lambda rng: mix.sample_phase(MIDDLEGAME, rng),
        "endgame": lambda rng: mix.sample_phase(ENDGAME, rng),
        "decided": decided,
    }


def _accepts(name: str, position: Positions, wanted: dict[bool, int], evaluator: Evaluator) -> bool:
    """Whether the position belongs in the slice; counts won and lost ones of `decided` down."""
    if name != "decided":
        return True
    score_cp = int(scores_of(evaluator, position[None])[0])
    is_won = score_cp > 0
    if abs(score_cp) < DECIDED_CP or wanted[is_won] == 0:
        return False
    wanted[is_won] -= 1
    return True


def _draw(evaluator: Evaluator) -> tuple[Positions, NDArray[np.int8]]:
    """(uint64 [M, 8] positions with cleared clocks, distinct by hash; int8 [M] their slice)."""
    rng = np.random.default_rng(SEED)
    book = np.concatenate([*opening_positions(), InitialPosition().sample(rng)[None]])
    seen = set(hash_batch(book).tolist())
    positions: list[Positions] = []
    slice_of: list[int] = []
    for index, (name, sample) in enumerate(_samplers().items()):
        size = SLICE_SIZES[name]
        wanted = {True: size // 2, False: size - size // 2}
        while slice_of.count(index) < size:
            position = sample(rng).copy()
            position[STATE] = position[STATE] & IDENTITY_BITS | _FIRST_MOVE
            identity = int(position_hash(position))
            if identity in seen or not _accepts(name, position, wanted, evaluator):
                continue
            seen.add(identity)
            positions.append(position)
            slice_of.append(index)
        print(f"{name}: {size} positions drawn", file=sys.stderr)
    return np.array(positions, np.uint64), np.array(slice_of, np.int8)


def rebuild(path: Path, *, evaluator_name: str, num_engines: int) -> None:
    """Writes the table to `path` (see `heldout.py`). Deterministic for a given engine build.

    Raises:
        ValueError: The evaluator cannot be made.
    """
    evaluator = make_evaluator(evaluator_name, num_engines=num_engines)
    try:
        positions, slice_of = _draw(evaluator)
        families = [children(position)[0] for position in positions]
        counts = [len(family) for family in families]
        print(f"scoring {sum(counts)} children with {evaluator.id}", file=sys.stderr)
        child_score_cp = -scores_of(evaluator, np.concatenate(families))
    finally:
        evaluator.close()
    # Renamed into place, so that a killed rebuild leaves the old table.
    unfinished = path.with_suffix(".unfinished.npz")
    np.savez_compressed(
        unfinished,
        positions=positions,
        slice_of=slice_of,
        slice_names=np.array(SLICE_NAMES),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        child_score_cp=child_score_cp.astype(np.int16),
        evaluator_id=np.array(evaluator.id),
    )
    unfinished.replace(path)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.positions.heldout_build", description="The held-out table."
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="make the table anew (minutes; needs Stockfish)"
    )
    parser.add_argument("--evaluator", default="stockfish-v1:depth=8", help="scores the children")
    parser.add_argument("--num-engines", type=int, default=2, help="engine processes")
    parser.add_argument("--out", type=Path, default=HELDOUT_PATH, help="file to read or write")
    arguments = parser.parse_args()
    if arguments.rebuild:
        rebuild(
            arguments.out, evaluator_name=arguments.evaluator, num_engines=arguments.num_engines
        )
    table = read_heldout(arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes, scored by {table.evaluator_id}")
    for name in table.slice_names:
        indices = table.indices(name)
        moves = np.diff(table.offsets)[indices].sum()
        print(f"  {name}: {len(indices)} positions, {moves} children")


if __name__ == "__main__":
    main()
