"""Verdicts on remedies: by hand, by invariance, and on runs that were swapped at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.collapse.trial import SOUND, TWIN, UNTREATED
from algorithms.comparison.remedy_verdicts import LEAST_SEEDS, MARGIN_CP, effects, paired
from benchmarks.records.remedy_checks import checks

SEEDS = 12


def rows(ends: Any) -> list[dict[str, Any]]:
    return [
        {"seed": seed, "start_cp": 285.0, "end_cp": float(end), "entropy": 1.0, "pass_at_8": 0.8}
        for seed, end in enumerate(ends)
    ]


def fault(seed: int = 0, **lower: float) -> dict[str, Any]:
    """A fault that ends at 180 cp and its twin at 100; each remedy ends so much lower, all with a spread of 3."""
    rng = np.random.default_rng(seed)
    ends = {UNTREATED: 180.0, TWIN: 100.0} | {name: 180.0 - down for name, down in lower.items()}
    return {name: rows(rng.normal(end, 3.0, SEEDS)) for name, end in ends.items()}


def verdicts(trials: Any, name: str = "stale_behaviour") -> dict[str, str]:
    return {each.remedy: each.verdict for each in effects(trials, name)}


def test_each_verdict_by_hand() -> None:
    trials = fault(cure=80.0, better=30.0, idle=0.0, worse=-40.0)
    noise = np.random.default_rng(1).normal(180.0, 60.0, SEEDS)
    trials["noisy"] = rows(noise)
    found = verdicts(trials)
    assert found == {"cure": "cures", "better": "helps", "idle": "nothing", "worse": "harms",
                     "noisy": "cannot tell"}  # fmt: skip


def test_the_change_is_that_of_the_same_seeds() -> None:
    spread = np.linspace(-50, 50, SEEDS)  # of the seeds; far more than the remedy does
    small = np.where(np.arange(SEEDS) % 2, 21.0, 19.0)
    trials = {
        UNTREATED: rows(180 + spread),
        TWIN: rows(100 + spread),
        "r": rows(180 + spread - small),
    }
    (found,) = effects(trials, "kl_trap")
    assert found.change_cp == pytest.approx(-20.0) and found.verdict == "helps"
    assert found.above_twin_cp == pytest.approx(60.0)
    assert found.p_value == pytest.approx(2.0 ** (1 - SEEDS))
    assert found.interval is not None and -21 < found.interval.low < found.interval.high < -19


def test_the_more_remedies_are_tried_the_more_a_claim_needs() -> None:
    alone, crowd = (
        fault(one=80.0),
        fault(one=80.0) | {f"r{n}": fault(n)[UNTREATED] for n in range(20)},
    )
    (one,) = effects(alone, "kl_trap")
    assert {e.remedy: e.p_value for e in effects(crowd, "kl_trap")}["one"] == pytest.approx(
        21 * one.p_value
    )


def test_the_sound_run_is_its_own_twin() -> None:
    trials = fault(better=40.0, worse=-40.0)
    del trials[TWIN]
    found = {each.remedy: each for each in effects(trials, SOUND)}
    assert (found["better"].verdict, found["worse"].verdict) == ("cures", "harms")
    assert math.isnan(found["worse"].above_twin_cp)
    assert found["worse"].to_dict()["above_twin_cp"] is None


def test_a_run_that_broke_is_left_out_and_few_seeds_say_nothing() -> None:
    trials = fault(cure=80.0, broken=80.0)
    trials["cure"][3] = {"seed": 3, "error": "not finite"}
    trials["broken"] = [{"seed": n, "error": "not finite"} for n in range(SEEDS - LEAST_SEEDS + 1)] + \
        trials["broken"][SEEDS - LEAST_SEEDS + 1:]  # fmt: skip
    found = {each.remedy: each for each in effects(trials, "kl_trap")}
    assert (found["cure"].verdict, found["cure"].seeds) == ("cures", SEEDS - 1)
    assert (found["broken"].verdict, found["broken"].seeds) == ("cannot tell", LEAST_SEEDS - 1)
    assert len(paired(trials["cure"], trials[UNTREATED])) == SEEDS - 1


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), shift=st.floats(-100, 100))
def test_what_all_runs_of_a_seed_share_changes_no_verdict(seed: int, shift: float) -> None:
    trials = fault(seed, cure=78.0, better=25.0, idle=1.0)
    rng = np.random.default_rng(seed)
    luck = shift * rng.random(SEEDS)
    moved = {
        name: [row | {"end_cp": row["end_cp"] + luck[row["seed"]]} for row in each]
        for name, each in trials.items()
    }
    assert verdicts(moved) == verdicts(trials)


def test_swapped_runs_claim_nothing_in_19_of_20_and_a_planted_effect_is_seen() -> None:
    matrix = {
        f"fault {n}": fault(n, **{f"r{k}": float(10 * k) for k in range(5)}) for n in range(4)
    }
    found = checks(matrix, swaps=50)
    assert found.swapped == 200 and found.claiming <= 0.05 * found.swapped
    assert found.planted == 20 and found.seen >= 0.95 * found.planted
    none = {"f": {UNTREATED: rows([180.0] * SEEDS), TWIN: rows([100.0] * SEEDS)}}
    assert checks(none).swapped == 0


def test_a_remedy_within_the_margin_of_the_twin_alone_cures() -> None:
    near, far = fault(r=80.0 - MARGIN_CP / 2), fault(r=80.0 - 2 * MARGIN_CP)
    assert (verdicts(near)["r"], verdicts(far)["r"]) == ("cures", "helps")


def test_a_change_whose_interval_holds_0_is_no_claim_however_small_its_p_value() -> None:
    # Measured: every seed is lower, and resamples of the middle half are so alike that the interval is wide.
    change = [-15.9, -20.3, -14.8, -30.3, -26.0, -22.4, -25.0, -22.2, -13.2, -22.8, -10.3, -22.6]
    trials = {
        UNTREATED: rows([180.0] * SEEDS),
        TWIN: rows([100.0] * SEEDS),
        "r": rows(180.0 + np.array(change)),
    }
    (found,) = effects(trials, "kl_trap")
    assert found.interval is not None and found.interval.low < -20 and found.interval.high > 0
    assert (found.p_value < 0.001, found.verdict) == (True, "cannot tell")
