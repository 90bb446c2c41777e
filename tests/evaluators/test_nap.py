"""How long the loop over the engines sleeps."""

from __future__ import annotations

import pytest

from chess_env.evaluators.pool import Nap


def test_the_nap_follows_how_much_of_a_window_was_left() -> None:
    nap = Nap(window=32)
    first = nap.whole_s
    nap.adapt(had=16, left=0, took_s=0.0)  # half a window or less says little
    nap.adapt(had=32, left=16, took_s=0.0)
    nap.adapt(had=32, left=0, took_s=2 * first)  # a loaded machine woke us late
    assert nap.whole_s == first
    nap.adapt(had=32, left=0, took_s=first)
    assert nap.whole_s == pytest.approx(0.7 * first)
    nap.adapt(had=32, left=17, took_s=0.0)
    assert nap.whole_s == pytest.approx(0.84 * first)


@pytest.mark.parametrize(("left", "limit_s"), [(0, 0.0003), (32, 0.005)])
def test_the_nap_stays_within_its_limits(left: int, limit_s: float) -> None:
    nap = Nap(window=32)
    for _ in range(50):
        nap.adapt(had=32, left=left, took_s=0.0)
    assert nap.whole_s == limit_s
