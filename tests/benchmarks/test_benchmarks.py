from __future__ import annotations

import pytest

from benchmarks.learning.algorithms import entropy_at


def test_entropy_at_a_regret_is_read_on_the_line_between_two_evaluations() -> None:
    curve = [[0, 400.0, 350.0, 3.0], [1, 300.0, 290.0, 2.0], [2, 100.0, 90.0, 1.0]]
    assert entropy_at(curve, 0.5) == pytest.approx(1.5)
    assert entropy_at(curve, 0.75) == pytest.approx(2.0)
    assert entropy_at(curve, 0.2) is None
