"""The animation of the front page: one position over the training of a run and of its cured twin.

    chess-lab causes run sampled_entropy_bonus --run-dir runs/faulty
    chess-lab causes run sampled_entropy_bonus --cured --run-dir runs/cured
    python -m benchmarks.board.animation runs/faulty runs/cured [--out docs/figures/board/collapse.svg]

The position is that of the held-out table in which the last policies of the two runs are furthest apart in entropy,
among those in which the first policy was undecided, the faulty run plays badly by then, and its twin better than at
first: there the collapse is seen best. It is chosen for that, and no number comes from it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from algorithms.evaluation.snapshots import Policies, snapshots
from algorithms.playing.animation import Panel, animate
from algorithms.playing.over_training import over_training
from algorithms.playing.position_sets import PositionSet, heldout_sets

OUT = Path("docs/figures/board/collapse.svg")
TEMPERATURE = 1.0
HIGH = 0.75
"""Quantile of the first entropies from which a position is considered."""
BAD_CP = 200.0
"""Expected regret of the faulty run's last policy from which a position is considered."""
BETTER = 0.6
"""Share of its first expected regret below which the twin's last one must be."""


def most_telling(faulty: Path, cured: Path, policies: Policies) -> PositionSet:
    """The position, alone."""
    best: tuple[float, PositionSet] | None = None
    ends = [snapshots(run).every for run in (faulty, cured)]
    for at in heldout_sets().values():
        bad, good = (over_training([run[0], run[-1]], policies, at, TEMPERATURE) for run in ends)
        first = bad.entropy[0]
        telling = (first >= np.quantile(first, HIGH)) & (bad.regret_cp[-1] >= BAD_CP)
        telling &= good.regret_cp[-1] <= BETTER * good.regret_cp[0]
        fall = np.where(telling, good.entropy[-1] - bad.entropy[-1], -np.inf)
        row = int(fall.argmax())
        if best is None or fall[row] > best[0]:
            best = float(fall[row]), at.only(row)
    assert best is not None
    return best[1]


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.board.animation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("faulty", type=Path)
    parser.add_argument("cured", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    policies = Policies()
    position = most_telling(options.faulty, options.cured, policies)
    panels = [
        Panel(name, over_training(snapshots(run).every, policies, position, TEMPERATURE))
        for name, run in (
            ("with the cause", options.faulty),
            ("its cured twin", options.cured),
        )
    ]
    path = animate(panels, options.out)
    print(f"{path.stat().st_size:,} bytes: {path}; position {position.names[0]}, {panels[0].fen}")


if __name__ == "__main__":
    main()
