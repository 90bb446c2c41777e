"""Makes the probe set: picks held-out positions, adds two special ones, scores their children.

`python -m benchmarks.positions.probe_build` describes the committed set; `--rebuild` makes it anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.diagnostics.probe_set import (
    KINDS,
    PROBES_PATH,
    contents_sha256,
    read_probe_set,
)
from chess_env.evaluators import Evaluator, make_evaluator
from chess_env.evaluators.protocol import scores_of
from chess_env.positions.heldout import SLICE_NAMES, Heldout, load_heldout
from chess_env.rules.fen import pack_fens
from chess_env.rules.movegen import MAX_LEGAL
from chess_env.rules.packed import Positions
from chess_env.rules.rules import children, legal_actions_batch

POSITIONS_PER_SLICE = 6
FORCED_FEN = "6k1/5ppp/8/8/1B6/8/4PPP1/r4K2 w - - 0 1"
"""In check on the back rank: the bishop's block on e1 is the one legal move."""

WIDEST_FEN = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"
"""218 legal moves, the width of every table of legal moves here (N. Petrović, 1964)."""
_KIND_OF_SLICE = dict(zip(SLICE_NAMES, KINDS, strict=False))


def heldout_rows(heldout: Heldout, slice_name: str, count: int) -> NDArray[np.int64]:
    """int64 `[count]`: rows of a slice with two legal moves or more, evenly spaced over them."""
    rows = heldout.indices(slice_name)
    free = rows[np.diff(heldout.offsets)[rows] >= 2]
    return free[np.linspace(0, len(free) - 1, count).round().astype(np.int64)]


def rebuild(path: Path, *, evaluator_name: str) -> None:
    """Writes the set to `path` (see above). Deterministic for a given engine build.

    Raises:
        ValueError: the evaluator cannot be made, or is not the one that scored the held-out table.
    """
    heldout = load_heldout()
    rows = {name: heldout_rows(heldout, name, POSITIONS_PER_SLICE) for name in SLICE_NAMES}
    scores = [heldout.scores_cp(int(row)) for chosen in rows.values() for row in chosen]
    kinds = [_KIND_OF_SLICE[name] for name, chosen in rows.items() for _ in chosen]
    special = pack_fens([FORCED_FEN, WIDEST_FEN])
    evaluator = make_evaluator(evaluator_name)
    try:
        if evaluator.id != heldout.evaluator_id:
            raise ValueError(
                f"the evaluator is {evaluator.id!r} and the held-out table was scored by "
                f"{heldout.evaluator_id!r}: one set needs one judge; install that engine (or set "
                "STOCKFISH_PATH), or rebuild the held-out table first"
            )
        scores += [_child_scores_cp(position, evaluator) for position in special]
    finally:
        evaluator.close()
    contents = _contents(
        np.concatenate([heldout.positions[np.concatenate(list(rows.values()))], special]),
        [*kinds, "forced", "widest"],
        scores,
        heldout.evaluator_id,
    )
    # Renamed into place, so that a killed rebuild leaves the old set.
    unfinished = path.with_suffix(".unfinished.npz")
    np.savez_compressed(unfinished, **contents, sha256=np.array(contents_sha256(contents)))
    unfinished.replace(path)


def _child_scores_cp(position: Positions, evaluator: Evaluator) -> NDArray[np.int16]:
    """int16 `[L]`: the children's scores from the mover's view, in the order of the legal actions."""
    return (-scores_of(evaluator, children(position)[0])).astype(np.int16)


def _contents(
    positions: Positions, kinds: list[str], scores: list[NDArray[np.int16]], evaluator_id: str
) -> dict[str, Any]:
    """The arrays of the file, without their digest."""
    legal_ids, num_legal = legal_actions_batch(positions)
    child_score_cp = np.zeros((len(positions), MAX_LEGAL), np.int16)
    child_score_cp[np.arange(MAX_LEGAL) < num_legal[:, None]] = np.concatenate(scores)
    return {
        "positions": positions,
        "kinds": np.array(kinds),
        "legal_ids": legal_ids,
        "child_score_cp": child_score_cp,
        "evaluator_id": np.array(evaluator_id),
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.positions.probe_build", description="The probe set."
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="make the set anew (seconds; needs Stockfish)"
    )
    parser.add_argument("--evaluator", default="stockfish-v1:depth=8", help="scores the children")
    parser.add_argument("--out", type=Path, default=PROBES_PATH, help="file to read or write")
    arguments = parser.parse_args()
    if arguments.rebuild:
        rebuild(arguments.out, evaluator_name=arguments.evaluator)
    probes = read_probe_set(arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes, SHA-256 {probes.sha256}")
    print(f"scored by {probes.evaluator_id}")
    for kind in KINDS:
        chosen = probes.of_kind(kind)
        print(f"  {kind}: {chosen.sum()} positions, {probes.num_legal[chosen].sum()} legal moves")


if __name__ == "__main__":
    main()
