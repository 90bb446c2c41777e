"""Is the best of many evaluations better than the run, or only the luckiest?

The highest of m noisy scores is high by chance: a score that one evaluation reaches with a probability of
1 % is reached somewhere in 21 with one of 20 %. So the probability here is times m (Bonferroni), which
holds however the evaluations depend on each other.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from algorithms.reports.scores import finite_array


@dataclasses.dataclass(frozen=True)
class Peak:
    """The best evaluation of a run against the others.

    Attributes:
        index: of the best evaluation, the first of equals.
        evaluations: how many there were.
        score: of the best one, in the scores' unit.
        level: what the other evaluations predict for it.
        p_value: probability that the best of so many is this far off at least, if the run is at its
            level throughout; corrected for the number of evaluations. 1 where nothing can be said.
        alpha: error rate of the verdict.
        cannot_be_judged: the others lie exactly on the level and the peak does not: how far one evaluation
            strays from it by luck is unknown then.
    """

    index: int
    evaluations: int
    score: float
    level: float
    p_value: float
    alpha: float
    cannot_be_judged: bool = False

    @property
    def is_noise(self) -> bool:
        """Whether luck explains it: nothing shows that this evaluation's weights are better."""
        return self.p_value > self.alpha


def judge_peak(
    scores: ArrayLike, *, higher_is_better: bool, trend: bool = False, alpha: float = 0.05
) -> Peak:
    """The verdict on the best of a run's evaluations `[m]`.

    The level is fitted to the others and the peak's distance is in standard errors of prediction
    (deleted residual; without trend, Grubbs 1950, doi:10.1214/aoms/1177729885). The noise is the spread
    of the others around the level, taken as normal; heavy tails are called real too often
    (`benchmarks/results/calibration.json`). A plateau never stands out from itself: this asks about one
    evaluation, not whether the run improved.

    Args:
        scores: in the order of the run.
        higher_is_better: whether the peak is the maximum or the minimum.
        trend: fit a line instead of a constant: for a run that is still improving.
        alpha: error rate.

    Raises:
        ValueError: too few scores, one is not finite, or alpha is no error rate.
    """
    from scipy.special import stdtr

    fitted = 2 if trend else 1
    found = finite_array(scores, "scores", at_least=fitted + 3)
    if found.ndim != 1:
        raise ValueError(f"scores are shaped {found.shape}: expected one row, [evaluations]")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is {alpha}: expected an error rate inside (0, 1), such as 0.05")
    count = len(found)
    index = int(found.argmax() if higher_is_better else found.argmin())
    others = np.delete(np.arange(count), index)
    design = np.vander(np.arange(count) - float(index), fitted)  # at the peak: (0, 1) or (1,)
    coefficients = np.linalg.lstsq(design[others], found[others], rcond=None)[0]
    level = float(coefficients[-1])
    ahead = (float(found[index]) - level) * (1.0 if higher_is_better else -1.0)
    # Variance of a new observation around the fitted value there, in units of one evaluation's.
    variance = 1.0 + float(np.linalg.inv(design[others].T @ design[others])[-1, -1])
    freedom = count - 1 - fitted
    residuals = found[others] - design[others] @ coefficients
    noise = math.sqrt(float((residuals**2).sum()) / freedom * variance)
    rounding = 1e-12 * float(np.abs(found).max())
    judged = noise > rounding or ahead <= rounding
    tail = float(stdtr(freedom, -ahead / noise)) if noise > rounding else 1.0
    p_value = min(1.0, count * tail)
    return Peak(index, count, float(found[index]), level, p_value, alpha, not judged)
