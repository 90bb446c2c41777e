"""The side-by-side comparison with MaskablePPO: equal settings, and ours minus theirs in centipawns."""

from __future__ import annotations

import pytest

from algorithms.comparison.readings import RunSummary
from algorithms.config.compatibility import check_settings
from algorithms.config.files import differences
from benchmarks.learning.sb3_ppo import MODES, OURS, THEIRS, config_of, row_of


def run(seed: int, regret_cp: float) -> RunSummary:
    curve = (400.0, regret_cp)
    return RunSummary("x", seed, "builtin", 512, None, None, (0, 512), curve, (3.0, 2.0), None)


@pytest.mark.parametrize("smoke", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_both_columns_have_the_same_settings_and_maskable_ppo_can_have_them(
    mode: str, smoke: bool
) -> None:
    ours, theirs = (config_of(mode, name, smoke=smoke) for name in (OURS, THEIRS))
    assert differences(ours, theirs).keys() == {"preset", "loop"}
    check_settings(ours)
    check_settings(theirs)


def test_the_difference_is_ours_minus_theirs_with_its_interval() -> None:
    theirs = [run(seed, 200.0) for seed in range(1, 6)]
    ours = [run(seed, 200.0 + off) for seed, off in enumerate((-2.0, -1.0, 0.0, 1.0, 2.0), start=1)]
    row = row_of("one_ply", ours, theirs)
    # Student's t at 4 degrees of freedom, 2.776, times sqrt(2.5 / 5).
    assert (row["difference_cp"], row["interval_95"]) == (0.0, "-1.96 to 1.96")
    assert (row["ppo_regret_cp"], row["sb3_regret_cp"], row["upper_below_10_cp"]) == (
        200,
        200,
        "yes",
    )
    worse = [run(seed, 209.0 + off) for seed, off in enumerate((-2, -1, 0, 1, 2), start=1)]
    assert row_of("one_ply", worse, theirs)["upper_below_10_cp"] == "no"
