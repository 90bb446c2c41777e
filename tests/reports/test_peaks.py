from __future__ import annotations

import numpy as np
import pytest

from algorithms.reports.statistics import judge_peak


def test_with_unknown_noise_it_is_grubbs_test() -> None:
    others = np.random.default_rng(0).normal(size=9)
    low, high = others.max(), 50.0
    for _ in range(60):
        middle = (low + high) / 2
        noisy = judge_peak([*others, middle], higher_is_better=True).is_noise
        low, high = (middle, high) if noisy else (low, middle)
    scores = np.array([*others, low])
    critical = (low - scores.mean()) / scores.std(ddof=1)
    assert critical == pytest.approx(2.1761, abs=1e-4)  # table: 10 values, one-sided, 5 %


def test_the_verdict_ignores_unit_level_and_direction() -> None:
    scores = np.random.default_rng(1).normal(size=12)
    peak = judge_peak(scores, higher_is_better=True)
    moved = judge_peak(300 - 50 * scores, higher_is_better=False)
    assert moved.index == peak.index
    assert moved.p_value == pytest.approx(peak.p_value)
    assert moved.level == pytest.approx(300 - 50 * peak.level)


def test_a_rising_run_is_judged_against_its_line() -> None:
    noise = 0.1 * np.random.default_rng(2).normal(size=20)
    rising = np.arange(20) + noise
    assert judge_peak(rising, higher_is_better=True, trend=True).is_noise
    jumped = rising.copy()
    jumped[12] += 30.0
    peak = judge_peak(jumped, higher_is_better=True, trend=True)
    assert (peak.index, peak.is_noise) == (12, False)
    assert peak.level == pytest.approx(12, abs=0.2)
    assert peak.score == pytest.approx(41.97, abs=0.01) and peak.evaluations == 20


def test_a_run_without_spread_has_no_peak() -> None:
    for flat in ([2.0] * 8, [0.0] * 8, [0.1] * 7):
        for trend in (False, True):
            peak = judge_peak(flat, higher_is_better=True, trend=trend)
            assert (peak.p_value, peak.cannot_be_judged) == (1.0, False)


@pytest.mark.parametrize(
    ("scores", "settings"),
    [
        ([0, 0, 0, 0, 1 / 64], {"higher_is_better": True}),
        ([2.0] * 7 + [3.0], {"higher_is_better": True}),
        ([2.1] * 7 + [1.0], {"higher_is_better": False}),
        ([0.1, 0.2, 0.3, 9.0, 0.5, 0.6], {"higher_is_better": True, "trend": True}),
    ],
)
def test_one_step_away_from_equals_is_not_called_real(
    scores: list[float], settings: dict[str, bool]
) -> None:
    peak = judge_peak(scores, **settings)
    assert (peak.p_value, peak.is_noise, peak.cannot_be_judged) == (1.0, True, True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: judge_peak([1, 2, 3], higher_is_better=True), r"shaped \(3,\): .* at least 4"),
        (lambda: judge_peak([1, 2, np.nan, 4], higher_is_better=True), "expected finite numbers"),
        (lambda: judge_peak(np.zeros((4, 4)), higher_is_better=True), "expected one row"),
    ],
)
def test_impossible_input_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
