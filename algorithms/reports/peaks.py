"""Is the best of many evaluations better than the run, or only the luckiest?

The highest of m noisy scores is high by chance: 6 of 64 games at a true score of 3 % has a
probability of 1 % in one evaluation, and of 20 % somewhere in 21. So each probability here is times m
(Bonferroni), which holds however the evaluations depend on each other.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from algorithms.reports.scores import Floats, finite_array
from algorithms.reports.student_t import student_t_tail


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

    def __str__(self) -> str:
        peak = f"the peak {self.score:.4g} (evaluation {self.index + 1} of {self.evaluations})"
        if self.cannot_be_judged:
            return (
                f"{peak} cannot be judged: the others are all at the run's level {self.level:.4g}, "
                "which says nothing of the noise; give the standard error of one evaluation"
            )
        verdict = "does not stand out" if self.is_noise else "stands out"
        return (
            f"{peak} {verdict} from the run's level {self.level:.4g}: p {self.p_value:.2g} for the "
            f"best of {self.evaluations}"
        )


def judge_peak(
    scores: ArrayLike,
    *,
    higher_is_better: bool,
    standard_error: float | None = None,
    trend: bool = False,
    alpha: float = 0.05,
) -> Peak:
    """The verdict on the best of a run's evaluations `[m]`.

    The level is fitted to the others and the peak's distance is in standard errors of prediction
    (deleted residual; without trend, Grubbs 1950, doi:10.1214/aoms/1177729885). Noise is taken as
    normal. A plateau never stands out from itself: this asks about one evaluation, not whether the run
    improved.

    Args:
        scores: in the order of the run.
        higher_is_better: whether the peak is the maximum or the minimum.
        standard_error: of one evaluation, if known; else the spread of the others around the level,
            which needs more evaluations and calls heavy tails real too often
            (`benchmarks/results/calibration.json`). Without any spread no verdict is possible.
        trend: fit a line instead of a constant: for a run that is still improving.
        alpha: error rate.

    Raises:
        ValueError: too few scores, one is not finite, or a setting is outside its range.
    """
    fitted = 2 if trend else 1
    needed = fitted + (2 if standard_error is not None else 3)
    found = finite_array(scores, "scores", at_least=needed)
    _check(found, alpha)
    if standard_error is not None and not 0.0 < standard_error < math.inf:
        raise ValueError(
            f"standard_error is {standard_error}: expected a finite number > 0, or None to take the "
            "noise from the run itself"
        )
    count = len(found)
    index = int(found.argmax() if higher_is_better else found.argmin())
    others = np.delete(np.arange(count), index)
    design = np.vander(np.arange(count) - float(index), fitted)  # at the peak: (0, 1) or (1,)
    coefficients = np.linalg.lstsq(design[others], found[others], rcond=None)[0]
    level = float(coefficients[-1])
    ahead = (float(found[index]) - level) * (1.0 if higher_is_better else -1.0)
    # Variance of a new observation around the fitted value there, in units of one evaluation's.
    variance = 1.0 + float(np.linalg.inv(design[others].T @ design[others])[-1, -1])
    judged = True
    if standard_error is not None:
        tail = 0.5 * math.erfc(ahead / (standard_error * math.sqrt(2.0 * variance)))
    else:
        freedom = count - 1 - fitted
        residuals = found[others] - design[others] @ coefficients
        noise = math.sqrt(float((residuals**2).sum()) / freedom * variance)
        rounding = 1e-12 * float(np.abs(found).max())
        judged = noise > rounding or ahead <= rounding
        tail = student_t_tail(ahead / noise, freedom) if noise > rounding else 1.0
    p_value = min(1.0, count * tail)
    return Peak(index, count, float(found[index]), level, p_value, alpha, not judged)


def _check(scores: Floats, alpha: float) -> None:
    """Raises ValueError unless the scores are `[m]` and alpha is an error rate."""
    if scores.ndim != 1:
        raise ValueError(f"scores are shaped {scores.shape}: expected one row, [evaluations]")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is {alpha}: expected an error rate inside (0, 1), such as 0.05")
