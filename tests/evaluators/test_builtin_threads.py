"""The built-in evaluator on several threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.speed.builtin_evaluator import random_play
from chess_env.evaluators.builtin import BuiltinEvaluator
from chess_env.evaluators.judge import JudgedEvaluator


def judged(num_threads: int = 1) -> JudgedEvaluator:
    return JudgedEvaluator(BuiltinEvaluator(num_threads))


@pytest.mark.parametrize("make", [BuiltinEvaluator, judged])
def test_threads_change_neither_scores_nor_counters(make: Any) -> None:
    played = random_play(24_000, seed=11)[::8]
    alone, together = make(), make(num_threads=3)
    try:
        expected = alone.evaluate(played)  # which also compiles
        assert np.array_equal(together.evaluate(played), expected)
        assert together.counters() == alone.counters()
        assert together.threads._others, "too few positions for a second thread"
        together.close()
        assert np.array_equal(together.evaluate(played), expected)
    finally:
        together.close()


@pytest.mark.parametrize("num_threads", [0, -1, 1.5, "2"])
def test_a_number_of_threads_that_is_none_is_refused(num_threads: Any) -> None:
    with pytest.raises(ValueError, match=r"num_threads is .*: expected a whole number from 1 on"):
        BuiltinEvaluator(num_threads)
