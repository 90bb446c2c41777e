from __future__ import annotations

import math

import pytest

from algorithms.reports.student_t import beta_cdf, beta_quantile, student_t_quantile, student_t_tail


@pytest.mark.parametrize(
    ("probability", "degrees", "table"),
    [
        (0.975, 1, 12.7062047),
        (0.975, 2, 4.3026527),
        (0.975, 4, 2.7764451),
        (0.975, 7, 2.3646243),
        (0.975, 9, 2.2621572),
        (0.975, 19, 2.0930241),
        (0.975, 30, 2.0422725),
        (0.95, 10, 1.8124611),
        (0.995, 7, 3.4994833),
        (0.9995, 3, 12.9239786),
        (0.975, 1_000_000, 1.9599664),
    ],
)
def test_the_quantiles_are_those_of_the_table(
    probability: float, degrees: int, table: float
) -> None:
    assert student_t_quantile(probability, degrees) == pytest.approx(table, abs=2e-7)
    assert student_t_quantile(1 - probability, degrees) == pytest.approx(-table, abs=2e-6)


def test_the_tail_is_the_quantile_s_inverse_and_cauchy_s_for_one_degree() -> None:
    assert student_t_tail(1.0, 1) == pytest.approx(0.25)
    assert student_t_tail(-1.0, 1) == pytest.approx(0.75)
    assert student_t_tail(0.0, 5) == pytest.approx(0.5)
    assert student_t_tail(math.inf, 5) == 0.0
    for degrees in (1, 2, 3.5, 8, 100):
        for probability in (0.01, 0.3, 0.5, 0.9, 0.9999):
            quantile = student_t_quantile(probability, degrees)
            assert student_t_tail(quantile, degrees) == pytest.approx(1 - probability)


def test_the_incomplete_beta_has_its_closed_forms() -> None:
    assert beta_cdf(0.0, 2, 3) == 0.0
    assert beta_cdf(1.0, 2, 3) == 1.0
    for x in (0.01, 0.2, 0.5, 0.77, 0.999):
        assert beta_cdf(x, 1, 1) == pytest.approx(x)
        assert beta_cdf(x, 3, 1) == pytest.approx(x**3)
        assert beta_cdf(x, 1, 3) == pytest.approx(1 - (1 - x) ** 3)
        assert beta_cdf(x, 0.5, 0.5) == pytest.approx(2 / math.pi * math.asin(math.sqrt(x)))
        # P(at least 5 of 8) of a binomial is an incomplete beta.
        upper = sum(math.comb(8, k) * x**k * (1 - x) ** (8 - k) for k in range(5, 9))
        assert beta_cdf(x, 5, 4) == pytest.approx(upper)


@pytest.mark.parametrize(
    ("a", "b", "standard_deviations", "probability"),
    [
        (1e4, 1e4, 0.1, 0.539827346051284),
        (3e4, 1e5, -2.0, 0.0225577924259294),
        (1e5, 1e5, 1.96, 0.975002511715539),
        (1e5, 1e7, -0.5, 0.308811741040445),
        (1e5, 1e9, 0.1, 0.540241983781092),
        (1e9, 1e5, -0.1, 1 - 0.540241983781092),
    ],
)
def test_large_shapes_have_the_values_of_an_integration_in_30_digits(
    a: float, b: float, standard_deviations: float, probability: float
) -> None:
    # By mpmath's quad of the density; x is so many standard deviations from the mean.
    mean = a / (a + b)
    x = mean + standard_deviations * math.sqrt(mean * (1 - mean) / (a + b))
    assert beta_cdf(x, a, b) == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize("shape", [1e5, 2_500_150_001.6, 1e15, 1e30])
def test_the_incomplete_beta_of_equal_large_shapes_is_a_normal_one_around_one_half(
    shape: float,
) -> None:
    assert beta_cdf(0.5, shape, shape) == 0.5
    deviation = 0.5 / math.sqrt(2 * shape + 1)
    for size in (1e-9, 1e-3, 1.0, 3.0):
        x = 0.5 + size * deviation
        normal = 0.5 * math.erfc(-(x - 0.5) / deviation / math.sqrt(2))
        assert beta_cdf(x, shape, shape) == pytest.approx(normal, abs=1e-6)


def test_the_asymptotic_form_and_the_fraction_meet_without_a_step() -> None:
    below, above = math.nextafter(1e5, 0), 1e5
    for x in (0.0098, 0.0099, 0.00995, 0.01):
        assert beta_cdf(x, below, 1e7) == pytest.approx(beta_cdf(x, above, 1e7), abs=1e-9)


def test_the_beta_quantile_inverts_the_probability() -> None:
    for probability in (0.001, 0.025, 0.5, 0.975):
        quantile = beta_quantile(probability, 7.5, 1.5)
        assert beta_cdf(quantile, 7.5, 1.5) == pytest.approx(probability)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: student_t_quantile(1.0, 5), "probability is 1.0: expected"),
        (lambda: student_t_quantile(0.975, 0), "degrees_of_freedom is 0: .* at least 2 values"),
        (lambda: student_t_tail(math.nan, 5), "t is nan"),
        (lambda: beta_cdf(1.5, 1, 1), "expected 0 <= x <= 1"),
        (lambda: beta_cdf(0.5, -1, 1), "shapes > 0"),
        (lambda: beta_quantile(2.0, 1, 1), "probability is 2.0"),
    ],
)
def test_an_impossible_argument_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
