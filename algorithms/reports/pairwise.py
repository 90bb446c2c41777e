"""What may be claimed after a comparison over seeds, in plain words."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from algorithms.reports.statistics import (
    ALPHA,
    Interval,
    Scores,
    difference_interval,
    holm,
    interquartile_mean,
    minimum_seeds,
    paired_differences,
    probability_of_improvement,
    sign_flip_p,
)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Ours against theirs on common seeds; differences are ours minus theirs.

    Attributes:
        ours: name of the first column.
        theirs: name of the second.
        seeds: how many both ran.
        difference: interquartile mean of the seeds' differences, in the scores' unit.
        interval: for that interquartile mean over all possible seeds; of this comparison alone,
            not simultaneous with the others.
        ours_higher: seeds on which ours is the higher.
        theirs_higher: seeds on which theirs is; the rest are equal.
        improvement: probability that ours is better on a new seed.
        improvement_interval: its interval.
        p_value: of no difference, two-sided sign flips.
        p_adjusted: the same after Holm's correction over the family.
        family: comparisons that were corrected for.
    """

    ours: str
    theirs: str
    seeds: int
    difference: float
    interval: Interval
    ours_higher: int
    theirs_higher: int
    improvement: float
    improvement_interval: Interval
    p_value: float
    p_adjusted: float
    family: int

    @property
    def identical(self) -> bool:
        """Whether the two are equal on every seed, as a control should be."""
        return self.ours_higher == self.theirs_higher == 0

    @property
    def holds(self) -> bool:
        """Whether a difference may be claimed: adjusted p at most `ALPHA`, and no 0 in the interval."""
        return self.p_adjusted <= ALPHA and self.interval.excludes(0.0)


def compare(
    columns: Sequence[Scores],
    *,
    higher_is_better: bool,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> tuple[Comparison, ...]:
    """A comparison of every pair of columns, corrected for their number.

    Args:
        columns: with different names and the same seeds and strata.
        higher_is_better: direction of the scores; regret is better lower.
        pairs: (ours, theirs) that are compared, chosen before the results were seen; every pair of
            columns if None. Fewer pairs need fewer seeds.

    Raises:
        ValueError: fewer than two columns, a name twice, an unknown name or no pair, a pair given
            twice or of a column with itself, or different seeds or strata.
    """
    names = [column.name for column in columns]
    by_name = dict(zip(names, columns, strict=True))
    if len(by_name) < 2 or len(by_name) < len(names):
        raise ValueError(f"columns are named {names}: expected at least two, with different names")
    chosen = tuple(itertools.combinations(names, 2)) if pairs is None else tuple(pairs)
    unknown = sorted({name for pair in chosen for name in pair} - set(names))
    if unknown or not chosen:
        raise ValueError(f"pairs name {unknown or 'nothing'}: expected pairs of {names}")
    if any(a == b for a, b in chosen) or len({frozenset(pair) for pair in chosen}) < len(chosen):
        raise ValueError(f"pairs are {chosen}: expected different columns, each pair once")

    differences = [paired_differences(by_name[a], by_name[b]) for a, b in chosen]
    p_values = [float(sign_flip_p(row)) for row in differences]
    found = []
    for (a, b), row, p, adjusted in zip(chosen, differences, p_values, holm(p_values), strict=True):
        improvement = probability_of_improvement(row, higher_is_better=higher_is_better)
        found.append(
            Comparison(
                ours=a,
                theirs=b,
                seeds=len(row),
                difference=float(interquartile_mean(row)),
                interval=difference_interval(row),
                ours_higher=int(np.count_nonzero(row > 0)),
                theirs_higher=int(np.count_nonzero(row < 0)),
                improvement=improvement[0],
                improvement_interval=improvement[1],
                p_value=p,
                p_adjusted=float(adjusted),
                family=len(chosen),
            )
        )
    return tuple(found)


def claims(comparisons: Sequence[Comparison], *, quantity: str) -> tuple[str, ...]:
    """What may be claimed: first a sentence about the whole, then one for each comparison.

    Args:
        comparisons: one whole family, as `compare` returns it.
        quantity: what was compared, with its unit: "held-out entropy (nats)".

    Raises:
        ValueError: it is not one whole family.
    """
    if not comparisons or {each.family for each in comparisons} != {len(comparisons)}:
        raise ValueError(
            f"{len(comparisons)} comparisons of families {sorted({c.family for c in comparisons})}: "
            "expected all that were corrected together; leaving some out afterwards makes p-values wrong"
        )
    needed = minimum_seeds(len(comparisons))
    seeds = min(each.seeds for each in comparisons)
    sentences = tuple(_sentence(each, quantity) for each in comparisons)
    held = sum(each.holds for each in comparisons)
    if held:
        whole = (
            f"{held} of {len(comparisons)} differences in {quantity} may be claimed over {seeds} seeds; "
            f"the probability of one false claim or more is at most {ALPHA:g} where "
            "columns without a difference are distributed alike (sign flips, Holm)."
        )
    elif seeds < needed:
        whole = (
            f"nothing: {seeds} seeds cannot carry a claim about {quantity}. Even if all of them "
            f"agreed, p would be {2.0 ** (1 - seeds):.2g}, times {len(comparisons)} comparisons; at "
            f"least {needed} seeds are needed at alpha {ALPHA:g}."
        )
    elif all(each.identical for each in comparisons):
        whole = f"nothing differs: {quantity} is identical on every seed."
    else:
        whole = (
            f"nothing: over {seeds} seeds no difference in {quantity} is larger than what seeds do by "
            "themselves. That is no proof of equality: see the intervals."
        )
    return (whole, *sentences)


def _sentence(each: Comparison, quantity: str) -> str:
    """One comparison in words."""
    pair = f"{each.ours} against {each.theirs}"
    if each.identical:
        return f"{pair}: identical in {quantity} on all {each.seeds} seeds."
    figures = (
        f"interquartile mean of the differences {each.difference:+.3g}, "
        f"{100 * each.interval.level:g} % interval {each.interval.low:+.3g} to {each.interval.high:+.3g}, "
        f"higher on {each.ours_higher} and lower on {each.theirs_higher} of {each.seeds} seeds, "
        f"p {each.p_adjusted:.2g} after Holm over {each.family}"
    )
    if each.holds:
        word = "higher" if each.interval.low > 0 else "lower"
        return f"{each.ours} has {word} {quantity} than {each.theirs} ({figures})."
    return f"{pair}: no difference in {quantity} may be claimed ({figures})."
