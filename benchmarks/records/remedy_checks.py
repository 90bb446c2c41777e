"""How the verdicts on remedies do where the truth is known; written into the records of matrices.

python -m benchmarks.records.remedy_checks benchmarks/results/remedies_*.json
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from algorithms.collapse.trial import SOUND, TWIN, UNTREATED
from algorithms.comparison.remedy_verdicts import (
    LEAST_SEEDS,
    MARGIN_CP,
    Rows,
    paired,
    verdict_of,
)
from algorithms.reports.statistics import difference_interval, holm, sign_flip_p


def adjusted(changes: Sequence[NDArray[np.float64]]) -> list[float]:
    """p-values of no change, by sign flips, adjusted by Holm for all that are given."""
    return [float(p) for p in holm([float(sign_flip_p(each)) for each in changes])]


@dataclasses.dataclass(frozen=True)
class Checks:
    """How the verdicts do where the truth is known.

    Attributes:
        swapped: faults looked at in which treated and untreated runs were swapped at random within the seeds.
        claiming: of them, those in which anything was claimed.
        planted: remedies that were made to do nothing but lower the regret by twice `MARGIN_CP`.
        seen: of them, those that "helps" or "cures" was said of.
    """

    swapped: int
    claiming: int
    planted: int
    seen: int


def checks(matrix: Mapping[str, Mapping[str, Rows]], *, swaps: int = 200, seed: int = 0) -> Checks:
    """False claims of random swaps, and power by a planted effect.

    Args:
        matrix: fault -> remedy -> rows.
        swaps: of each fault.
        seed: of the swaps.
    """
    rng = np.random.default_rng(seed)
    swapped = claiming = planted = seen = 0
    for fault, trials in matrix.items():
        untreated = trials[UNTREATED]
        all_changes = [
            change
            for name, rows in trials.items()
            if name not in (UNTREATED, TWIN)
            and len(change := paired(rows, untreated)) >= LEAST_SEEDS
        ]
        for _ in range(swaps if all_changes else 0):
            flipped = [rng.choice([-1.0, 1.0], len(each)) * each for each in all_changes]
            verdicts = [
                verdict_of(each, difference_interval(each), p, each)
                for each, p in zip(flipped, adjusted(flipped), strict=True)
            ]
            swapped += 1
            claiming += bool({"cures", "helps", "harms"} & set(verdicts))
        for each in all_changes if fault != SOUND else ():
            # Its own scatter about nothing, and the effect.
            effect = each - each.mean() - 2 * MARGIN_CP
            others = [other for other in all_changes if other is not each]
            p_value = adjusted([effect, *others])[0]
            verdict = verdict_of(effect, difference_interval(effect), p_value, effect)
            planted += 1
            seen += verdict in ("cures", "helps")
    return Checks(swapped, claiming, planted, seen)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        record = json.loads(path.read_text(encoding="utf-8"))
        record["checks"] = vars(checks(record["trials"]))
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(path, record["checks"])
