"""The benchmark of evaluators plays with the evaluator that it names and counts the engine's CPU time."""

from __future__ import annotations

import time

import pytest

from benchmarks.speed.evaluators import PLIES, RandomPlay


@pytest.mark.parametrize("name", ["none", "builtin"])
def test_random_play_has_a_rate_and_knows_its_evaluator(name: str) -> None:
    play = RandomPlay(name)
    assert play.evaluator_id.startswith(name)
    assert play.plies_per_cpu_s(100) > 0
    play.close()


@pytest.mark.stockfish
def test_the_cpu_time_of_the_engine_counts() -> None:
    (name,) = (name for name in PLIES if name.startswith("stockfish"))
    play = RandomPlay(name)
    play.plies_per_cpu_s(640)
    assert play.cpu_s() > time.process_time() + 0.05  # the engine searched for a while
    assert "depth=4" in play.evaluator_id
    play.close()
