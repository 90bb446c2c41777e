"""Columns of results over seeds, and their differences on common seeds."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-12
"""Share of a value below which a difference is taken for rounding of float64 sums."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """One column of a comparison: an algorithm's result on every seed.

    Attributes:
        name: of the algorithm or setting, for sentences.
        seeds: S different seeds, at least 2.
        values: float64 `[S]`, or `[S, K]` with one value for each of K strata (tasks, cells), in the
            order of the seeds; all in one unit, which the strata share.
    """

    name: str
    seeds: tuple[int, ...]
    values: Floats

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim not in (1, 2) or values.size == 0 or len(values) != len(self.seeds):
            raise ValueError(
                f"{self.name}: values are shaped {values.shape} for {len(self.seeds)} seeds; "
                "expected [seeds] or [seeds, strata], a value for every seed"
            )
        if len(self.seeds) < 2:
            raise ValueError(
                f"{self.name}: seeds are {self.seeds}; one seed says nothing about the spread over "
                "seeds, run at least 2"
            )
        repeated = [seed for seed, count in Counter(self.seeds).items() if count > 1]
        if repeated:
            raise ValueError(
                f"{self.name}: seeds {repeated} occur more than once; a repeated run is no new "
                "evidence, give each seed once"
            )
        bad = [
            seed for seed, row in zip(self.seeds, values, strict=True) if not np.isfinite(row).all()
        ]
        if bad:
            raise ValueError(
                f"{self.name}: the values of seeds {bad} are not finite; leave these seeds out of "
                "every column and report them as broken"
            )
        values.flags.writeable = False
        object.__setattr__(self, "seeds", tuple(int(seed) for seed in self.seeds))
        object.__setattr__(self, "values", values)


def paired_differences(ours: Scores, theirs: Scores) -> Floats:
    """`[S]` ours minus theirs on each seed, in the order of `ours`, averaged over the strata.

    A difference within `ROUNDING` of the values is 0: two columns that do the same sum in another
    order are equal, and must not become a difference that all seeds agree on.

    Raises:
        ValueError: the columns have different seeds or different strata.
    """
    alone = sorted(set(ours.seeds) ^ set(theirs.seeds))
    if alone:
        raise ValueError(
            f"seeds {alone} are in only one of {ours.name} and {theirs.name}: a paired comparison "
            "needs the same seeds on both sides; run them or leave them out"
        )
    if ours.values.shape != theirs.values.shape:
        raise ValueError(
            f"{ours.name} is shaped {ours.values.shape} and {theirs.name} {theirs.values.shape}: "
            "expected the same strata on both sides"
        )
    order = [theirs.seeds.index(seed) for seed in ours.seeds]
    differences = ours.values - theirs.values[order]
    sizes = np.maximum(np.abs(ours.values), np.abs(theirs.values[order]))
    differences = np.where(np.abs(differences) <= ROUNDING * sizes, 0.0, differences)
    return differences if differences.ndim == 1 else differences.mean(1)


def finite_array(values: ArrayLike, name: str, *, at_least: int) -> Floats:
    """The values as float64.

    Raises:
        ValueError: the last axis is shorter than `at_least`, or a value is not finite.
    """
    found = np.asarray(values, dtype=np.float64)
    if found.ndim == 0 or found.shape[-1] < at_least:
        raise ValueError(f"{name} are shaped {found.shape}: expected at least {at_least} of them")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} are {found}: expected finite numbers; leave broken seeds out")
    return found
