"""Open questions are comparisons that can be built, and their record says what the runs did."""

from __future__ import annotations

import pytest

from algorithms.comparison.readings import RunSummary
from benchmarks.records.questions import against, price


def run(seed: int, regret_cp: tuple[float, ...], entropy: tuple[float, ...]) -> RunSummary:
    moves = tuple(range(0, 256 * len(regret_cp), 256))
    return RunSummary("grpo", seed, "builtin", 512, None, None, moves, regret_cp, entropy, None)


def test_the_price_of_entropy_is_nats_lost_per_100_cp_of_regret_gained() -> None:
    # From 400 cp to 80 % of them, 320: halfway between 400 and 240, where entropy is 2.5.
    one = run(1, (400.0, 240.0), (3.0, 2.0))
    assert price(one, 80) == pytest.approx(100 * 0.5 / 80)
    with pytest.raises(ValueError, match=r"seed 1 never reaches 50 %"):
        price(one, 50)


def test_columns_are_compared_seed_by_seed_at_the_deepest_level_of_both() -> None:
    runs = {
        "base": [run(1, (400.0, 200.0), (3.0, 1.0)), run(2, (400.0, 200.0), (3.0, 1.2))],
        "other": [run(1, (400.0, 280.0), (3.0, 2.0)), run(2, (400.0, 280.0), (3.0, 2.4))],
        "broken": [run(1, (400.0, 200.0), (3.0, 1.0))],
    }
    found = against("base", runs)
    assert list(found["percent_of_start"]) == ["other"]
    assert found["percent_of_start"]["other"]["difference"] == pytest.approx(20.0)
    assert found["percent_of_start"]["other"]["higher"] == 2
    # At 70 %: 120 cp gained; other lost 1 and .6 nats, the base three fifths of 2 and of 1.8.
    cheaper = found["nats_per_100_cp"]["other"]
    assert cheaper["level_percent"] == 70
    assert cheaper["difference"] == pytest.approx(100 * ((1.0 + 0.6) - (1.2 + 1.08)) / 2 / 120)
