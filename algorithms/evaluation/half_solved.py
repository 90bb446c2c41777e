"""The rating of puzzles of which half are solved: a logistic curve over the ratings, and where it crosses one half."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class HalfSolved:
    """Where the curve crosses one half.

    Attributes:
        rating: of the puzzles of which half are solved; None where it cannot be told.
        low: lower end of the 95 % interval; None without a rating.
        high: upper end.
        why_not: why it cannot be told; "" where it can.
    """

    rating: float | None
    low: float | None
    high: float | None
    why_not: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)


def half_solved(ratings: Floats, solved: Floats, counts: Floats) -> HalfSolved:
    """The rating at which half of the puzzles are solved, by maximum likelihood.

    The probability of a solution is taken as 1 / (1 + exp(-(a - b rating))). The interval is Fieller's of the ratio
    a / b (Fieller 1954, doi:10.1111/j.2517-6161.1954.tb00159.x), which has no end where the slope b may be 0.

    Args:
        ratings: float64 [K], different ones.
        solved: float64 [K] puzzles of each that were solved.
        counts: float64 [K] puzzles of each, at least 1.
    """
    from scipy.optimize import minimize
    from scipy.special import expit, ndtri

    if (why_not := _no_curve(ratings, solved, counts)) is not None:
        return HalfSolved(None, None, None, why_not)
    centre, scale = float(np.average(ratings, weights=counts)), 400.0
    design = np.stack([np.ones_like(ratings), (ratings - centre) / scale], axis=1)
    total = counts.sum()

    def loss(weights: Floats) -> tuple[float, Floats]:
        logits = design @ weights
        value = counts @ np.logaddexp(0, logits) - solved @ logits
        return float(value / total), design.T @ (counts * expit(logits) - solved) / total

    def hessian(weights: Floats) -> Floats:
        probs = expit(design @ weights)
        return (design * (counts * probs * (1 - probs))[:, None]).T @ design / total

    fit = minimize(
        loss, np.zeros(2), jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-9}
    )
    start, slope = fit.x
    if slope >= 0:
        return HalfSolved(None, None, None, "harder puzzles are not solved less often")
    rating = centre - scale * start / slope
    easiest, hardest = ratings.min(), ratings.max()
    if not easiest <= rating <= hardest:
        side = f"below {easiest:.0f}" if rating < easiest else f"above {hardest:.0f}"
        return HalfSolved(None, None, None, f"{side}, outside of the puzzles' ratings")
    covariance = np.linalg.inv(hessian(fit.x) * total)
    z = float(ndtri(0.975))
    square = slope**2 - z**2 * covariance[1, 1]
    if square <= 0:
        return HalfSolved(
            None, None, None, "too few puzzles: the solved share may not depend on the rating"
        )
    mixed = start * slope - z**2 * covariance[0, 1]
    rest = start**2 - z**2 * covariance[0, 0]
    root = np.sqrt(mixed**2 - square * rest)
    low, high = (float(centre + scale * (-mixed + sign * root) / square) for sign in (-1, 1))
    return HalfSolved(float(rating), low, high, "")


def _no_curve(ratings: Floats, solved: Floats, counts: Floats) -> str | None:
    """Why no curve fits best; None where one does."""
    if not counts.sum():
        return "no puzzles"
    if not solved.sum():
        return "none is solved"
    if solved.sum() == counts.sum():
        return "all are solved"
    hit, missed = ratings[solved > 0], ratings[solved < counts]
    if hit.max() <= missed.min():
        return f"all up to {hit.max():.0f} are solved and none from {missed.min():.0f} on"
    if hit.min() >= missed.max():
        return "harder puzzles are not solved less often"
    return None
