"""Beta and Student t distributions in plain Python: what the intervals need, without scipy."""

from __future__ import annotations

import functools
import math

_CONVERGED = 1e-15
_MAX_TERMS = 10_000
_TINY = 1e-300
_LARGE_SHAPES = 1e5
"""Where both shapes are at least this, the asymptotic form is right to 1e-10; the fraction takes ever more terms."""


def beta_cdf(x: float, a: float, b: float) -> float:
    """Probability in [0, 1] that a Beta(a, b) variable is at most `x`, the incomplete beta I_x(a, b).

    Continued fraction DLMF 8.17.22 (https://dlmf.nist.gov/8.17.v) by Lentz's method, on the side
    of the mean where it converges fast; for two large shapes the first two terms of Temme's uniform
    expansion, DLMF 8.18.9 (https://dlmf.nist.gov/8.18.ii).

    Args:
        x: in [0, 1].
        a: shape > 0.
        b: shape > 0.

    Raises:
        ValueError: an argument is outside its range, or the fraction did not converge.
    """
    if not (0.0 <= x <= 1.0 and 0.0 < a < math.inf and 0.0 < b < math.inf):
        raise ValueError(f"beta_cdf({x}, {a}, {b}): expected 0 <= x <= 1 and finite shapes > 0")
    if x in (0.0, 1.0):
        return x
    if min(a, b) >= _LARGE_SHAPES:
        return _asymptotic(x, a, b)
    front = math.exp(_log_front(x, a, b))
    if x <= (a + 1.0) / (a + b + 2.0):
        return front / (a * _continued_fraction(x, a, b))
    return 1.0 - front / (b * _continued_fraction(1.0 - x, b, a))


def _log_front(x: float, a: float, b: float) -> float:
    """ln of x^a (1 - x)^b / B(a, b).

    As a distance from the mean plus what Stirling's formula leaves of the gamma functions: their
    logarithms themselves are so large for large shapes that their difference has no digits left.
    """
    size = 0.5 * math.log(a / (a + b) * b / (2.0 * math.pi))
    return size - _distance(x, a, b) + _stirling(a + b) - _stirling(a) - _stirling(b)


def _distance(x: float, a: float, b: float) -> float:
    """a ln(m / x) + b ln((1 - m) / (1 - x)) with the mean m = a / (a + b): 0 at the mean, else > 0."""
    mean, rest = a / (a + b), b / (a + b)
    off = x - mean
    return -a * _log_minus(off / mean, x / mean) - b * _log_minus(-off / rest, (1.0 - x) / rest)


def _log_minus(u: float, one_plus_u: float) -> float:
    """ln(1 + u) - u, without the cancellation where u is small."""
    if abs(u) < 0.01:
        return sum(-((-u) ** k) / k for k in range(2, 10))
    return math.log(one_plus_u) - u


def _stirling(z: float) -> float:
    """ln Gamma(z) minus Stirling's (z - 1/2) ln z - z + ln(2 pi) / 2."""
    if z < 20.0:
        return math.lgamma(z) - ((z - 0.5) * math.log(z) - z + 0.5 * math.log(2.0 * math.pi))
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * z * z)) / z**2) / z**2) / z


def _asymptotic(x: float, a: float, b: float) -> float:
    mean, rest, off = a / (a + b), b / (a + b), x - a / (a + b)
    distance = _distance(x, a, b)
    eta = math.copysign(math.sqrt(2.0 * distance / (a + b)), off)
    if abs(off) < 1e-8 * min(mean, rest):  # its limit at the mean
        skew = (rest - mean) / (3.0 * math.sqrt(mean * rest))
    else:
        skew = 1.0 / eta - math.sqrt(mean * rest) / off
    tail = 0.5 * math.erfc(-math.copysign(math.sqrt(distance), off))
    found = tail + skew * math.exp(-distance) / math.sqrt(2.0 * math.pi * (a + b))
    return min(1.0, max(0.0, found))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """1 + d_1 / (1 + d_2 / (1 + ...)) with the d of DLMF 8.17.23."""
    value, above, below = 1.0, 1.0, 0.0
    for term in range(1, _MAX_TERMS):
        m = term // 2
        if term % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1.0 / _off_zero(1.0 + d * below)
        above = _off_zero(1.0 + d / above)
        value *= above * below
        if abs(above * below - 1.0) < _CONVERGED:
            return value
    raise ValueError(
        f"incomplete beta of x={x}, a={a}, b={b} did not converge: the shapes are too large; "
        "more than a million seeds need no Student t"
    )


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


@functools.lru_cache(maxsize=4096)
def beta_quantile(probability: float, a: float, b: float) -> float:
    """The x in [0, 1] below which a Beta(a, b) variable stays with this probability; by bisection.

    Raises:
        ValueError: the probability is not in [0, 1], or a shape is not positive.
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability is {probability}: expected a number in [0, 1]")
    low, high = 0.0, 1.0
    while high - low > 4e-16 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if beta_cdf(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def student_t_tail(t: float, degrees_of_freedom: float) -> float:
    """Probability that a Student t variable is greater than `t`.

    Raises:
        ValueError: `degrees_of_freedom` is not a positive finite number, or `t` is NaN.
    """
    if math.isnan(t):
        raise ValueError("t is nan: expected a number; was there no spread in the values?")
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    x = degrees_of_freedom / (degrees_of_freedom + t * t)
    tail = 0.5 * beta_cdf(x, degrees_of_freedom / 2.0, 0.5)
    return tail if t >= 0 else 1.0 - tail


def student_t_quantile(probability: float, degrees_of_freedom: float) -> float:
    """The value below which a Student t variable stays with this probability.

    Raises:
        ValueError: the probability is not inside (0, 1), or `degrees_of_freedom` is not positive.
    """
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability is {probability}: expected a number inside (0, 1)")
    if not 0.0 < degrees_of_freedom < math.inf:
        raise ValueError(
            f"degrees_of_freedom is {degrees_of_freedom}: expected a finite number > 0; "
            "a t interval needs at least 2 values"
        )
    if probability == 0.5:
        return 0.0
    both_tails = 2.0 * min(probability, 1.0 - probability)
    x = beta_quantile(both_tails, degrees_of_freedom / 2.0, 0.5)
    size = math.sqrt(degrees_of_freedom * (1.0 - x) / x)
    return size if probability > 0.5 else -size
