"""Measures of single moves, against numbers worked out by hand, loops, python-chess and `regret_cp`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import chess.engine
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.evaluation.load_policy import load_policy
from algorithms.evaluation.move_quality import (
    accuracy_percent,
    better_moves,
    judge,
    measure,
    policy_probs,
    table,
    uniform_probs,
    win_percent,
)
from algorithms.evaluation.regret import HeldoutSlice, prepare_slice, regret_cp
from chess_env.observation import NUM_PLANES
from chess_env.positions.heldout import load_heldout
from tests.evaluation.policies import small_policy
from tests.small import CPU

Row = list[tuple[int, float]]
"""Of one position, each legal move's score in centipawns and its probability."""


def made(rows: list[Row]) -> tuple[Any, HeldoutSlice]:
    """(probabilities, slice) of positions that need no board."""
    width = max(map(len, rows)) + 1  # one column of padding at least
    ids = np.full((len(rows), width), -1, np.int16)
    scores, probs = np.zeros((len(rows), width)), np.zeros((len(rows), width))
    for row, moves in enumerate(rows):
        ids[row, : len(moves)] = np.arange(len(moves))
        scores[row, : len(moves)] = [score for score, _ in moves]
        probs[row, : len(moves)] = [prob for _, prob in moves]
    num_legal = np.array([len(moves) for moves in rows])
    planes = np.zeros((len(rows), NUM_PLANES, 8, 8), np.uint8)
    return probs, HeldoutSlice(
        "made", planes, ids, scores, num_legal, np.zeros((len(rows), 8), np.uint64)
    )


def values_of(rows: list[Row]) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in measure(*made(rows)).items()}


@st.composite
def positions(draw: st.DrawFn, bound_cp: int = 10_000) -> Row:
    count = draw(st.integers(1, 9))
    scores = draw(st.lists(st.integers(-bound_cp, bound_cp), min_size=count, max_size=count))
    weights = draw(st.lists(st.floats(0.01, 1), min_size=count, max_size=count))
    return [(score, weight / sum(weights)) for score, weight in zip(scores, weights, strict=True)]


def test_three_moves_give_what_a_pocket_calculator_gives() -> None:
    found = values_of([[(100, 0.5), (50, 0.3), (-300, 0.2)]])
    # Win%: 59.1026, 54.5896 and 24.8886, so the losses are 0, 4.5130 and 34.2140 points;
    # accuracies 100, 103.1668 * 0.82159 - 3.1669 = 81.5937 and 103.1668 * 0.22545 - 3.1669 = 20.0921.
    expected = {
        "regret_cp": 0.3 * 50 + 0.2 * 400,
        "win_percent_loss": 0.3 * 4.5130 + 0.2 * 34.2140,
        "accuracy_percent": 0.5 * 100 + 0.3 * 81.5937 + 0.2 * 20.0921,
        "top_1": 0.5,
        "top_3": 1.0,
        "top_5": 1.0,
        "pass_at_1": 0.8,
        "pass_at_8": 1 - 0.2**8,
        "entropy": 0.5 * math.log(2) - 0.3 * math.log(0.3) - 0.2 * math.log(0.2),
    }
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name] == [pytest.approx(value, abs=1e-3)], name


@pytest.mark.parametrize("score_cp", [-1000, -400, -37, 0, 1, 250, 999])
def test_win_percent_is_that_of_python_chess(score_cp: int) -> None:
    wdl = chess.engine.Cp(score_cp).wdl(model="lichess")  # in whole thousandths
    assert win_percent(np.array([score_cp]))[0] == pytest.approx(100 * wdl.expectation(), abs=0.11)
    assert win_percent(np.array([9_999.0, -4_000.0])) == pytest.approx([97.5447, 2.4553], abs=1e-4)


def test_accuracy_meets_the_points_that_lichess_fitted_it_to() -> None:
    # The data in AccuracyPercent.scala: 100 at 0, 75 at 5, 60 at 10, 42 at 20, 20 at 40, 5 at 60, 0 at 80.
    points = np.array([0.0, 5, 10, 20, 40, 60, 80])
    found = accuracy_percent(points)
    assert found == pytest.approx([100, 75, 60, 42, 20, 5, 0], abs=8)
    assert found[0] == 100.0
    assert (np.diff(found) < 0).all()
    assert accuracy_percent(np.array([95.0])).tolist() == [0.0]
    for wrong in (-0.1, math.nan):
        with pytest.raises(ValueError, match="loss of Win%"):
            accuracy_percent(np.array([1.0, wrong]))


def test_a_move_tied_with_the_best_is_a_best_move() -> None:
    found = values_of([[(20, 0.1), (20, 0.2), (10, 0.3), (10, 0.15), (0, 0.25)]])
    assert found["top_1"] == [pytest.approx(0.3)]
    assert found["top_3"] == [pytest.approx(0.75)]  # two moves are better than both at 10
    assert found["top_5"] == [pytest.approx(1.0)]
    _, held = made([[(20, 0.5), (20, 0.5), (10, 0.0)]])
    assert better_moves(held)[0, :3].tolist() == [0, 0, 2]


def test_a_faster_mate_is_the_better_move_but_no_smaller_regret() -> None:
    found = values_of([[(9_999, 0.0), (9_997, 1.0), (1_200, 0.0)]])
    assert found["top_1"] == [0.0]
    assert found["top_3"] == [1.0]
    assert found["regret_cp"] == found["win_percent_loss"] == [0.0]
    assert found["accuracy_percent"] == [100.0]


@settings(max_examples=60)
@given(moves=positions())
def test_everything_stays_in_its_bounds_and_equals_a_loop_over_moves(moves: Row) -> None:
    found = {name: values[0] for name, values in values_of([moves]).items()}
    scores = [score for score, _ in moves]
    for name in ("top_1", "top_3", "top_5", "pass_at_1", "pass_at_8"):
        assert 0 <= found[name] <= 1
    assert 0 <= found["regret_cp"] <= 1000 * (1 + 1e-9)
    assert 0 <= found["win_percent_loss"] <= 95.1
    assert 0 <= found["accuracy_percent"] <= 100
    assert found["top_1"] <= found["top_3"] <= found["top_5"]
    assert found["pass_at_1"] <= found["pass_at_8"] + 1e-12
    for k in (1, 3, 5):
        least = sorted(scores, reverse=True)[: min(k, len(moves))][-1]
        mass = sum(prob for score, prob in moves if score >= least)
        assert found[f"top_{k}"] == pytest.approx(mass)
    if len(moves) == 1:
        assert math.isnan(found["entropy"])
    else:
        assert -1e-12 <= found["entropy"] <= math.log(len(moves)) + 1e-12


@settings(max_examples=60)
@given(moves=positions(bound_cp=400), shift=st.integers(-600, 600))
def test_a_shift_of_all_scores_changes_nothing_but_win_percent(moves: Row, shift: int) -> None:
    before = values_of([moves])
    after = values_of([[(score + shift, prob) for score, prob in moves]])
    for name in set(before) - {"win_percent_loss", "accuracy_percent"}:
        assert after[name] == pytest.approx(before[name], nan_ok=True), name


@settings(max_examples=60)
@given(moves=positions(), order=st.randoms(use_true_random=False))
def test_the_names_of_the_moves_do_not_matter(moves: Row, order: Any) -> None:
    shuffled = list(moves)
    order.shuffle(shuffled)
    before, after = values_of([moves]), values_of([shuffled])
    for name in before:
        assert after[name] == pytest.approx(before[name], nan_ok=True, abs=1e-9), name


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_regret_successes_and_entropy_of_warm_are_those_a_run_logs(temperature: float) -> None:
    held = prepare_slice(load_heldout(), "endgame")
    first = {
        field: getattr(held, field)[:80]
        for field in ("obs", "legal_ids", "child_score_cp", "num_legal")
    }
    held = dataclasses.replace(held, **first)
    policy = load_policy("warm")
    logged = regret_cp(policy, held, temperature=temperature, device=CPU)
    sampled = measure(policy_probs(policy, held, temperature=temperature, device=CPU), held)
    greedy = measure(policy_probs(policy, held, temperature=0.0, device=CPU), held)
    assert sampled["regret_cp"] == pytest.approx(logged.per_position_cp, rel=1e-9)
    assert sampled["pass_at_1"] == pytest.approx(logged.per_position_success, rel=1e-9)
    assert sampled["pass_at_8"].mean() == pytest.approx(logged.pass_at_8, rel=1e-9)
    assert sampled["entropy"] == pytest.approx(logged.per_position_entropy, rel=1e-4, nan_ok=True)
    assert greedy["regret_cp"].tolist() == logged.per_position_greedy_cp.tolist()
    assert np.nansum(greedy["entropy"]) == 0
    assert greedy["pass_at_8"].tolist() == greedy["pass_at_1"].tolist()


def test_equally_likely_moves_are_the_mean_over_the_legal_ones() -> None:
    _, held = made([[(100, 0.0), (0, 0.0)], [(30, 0.0), (0, 0.0), (-30, 0.0)]])
    probs = uniform_probs(held)
    assert probs.tolist() == [[0.5, 0.5, 0, 0], [pytest.approx(1 / 3)] * 3 + [0]]
    assert measure(probs, held)["regret_cp"].tolist() == pytest.approx([50, 30])


def test_an_interval_holds_its_mean_and_forced_positions_have_no_entropy() -> None:
    rows: list[Row] = [[(0, 1.0)], [(0, 0.5), (-100, 0.5)], [(0, 0.9), (-300, 0.1)]]
    quality = judge(*made(rows), chooser="T=1", temperature=1.0, seed=3)
    assert quality.num_positions == 3
    assert quality.figures["regret_cp"].mean == pytest.approx((0 + 50 + 30) / 3)
    half = math.log(2)
    other = -0.9 * math.log(0.9) - 0.1 * math.log(0.1)
    assert quality.figures["entropy"].mean == pytest.approx((half + other) / 2)
    assert quality == judge(*made(rows), chooser="T=1", temperature=1.0, seed=3)
    for figure in quality.figures.values():
        assert figure.low <= figure.mean + 1e-12 and figure.mean <= figure.high + 1e-12
    assert quality.figures["regret_cp"].low < quality.figures["regret_cp"].high
    entry = quality.to_dict()
    assert (entry["slice"], entry["chooser"], entry["temperature"]) == ("made", "T=1", 1.0)
    assert entry["regret_cp_low"] == quality.figures["regret_cp"].low


def test_the_table_fits_eighty_columns_whatever_is_in_it() -> None:
    worst = judge(
        *made([[(10_000, 0.0), (-10_000, 1.0)]] * 3), chooser="T=0.123456", temperature=0.1, seed=0
    )
    lines = table([worst] * 4, "no-judge-of-this-name")
    assert lines[0] == "made, 3 positions"
    assert sum("regret cp" in line for line in lines) == 2  # three columns, then the fourth
    assert "regret cp  1000.0 (1000.0-1000.0) 1000.0" in "\n".join(lines)
    assert max(map(len, lines)) <= 79
    shown = [line[:10].strip() for line in lines[2:11]]
    assert shown == [
        "regret cp", "Win% loss", "accuracy %", "top-1 %", "top-3 %", "top-5 %", "pass@1 %", "pass@8 %",
        "entropy",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda probs: probs[:, :-1], "has shape"),
        (lambda probs: probs * 0.9, "position 0 .*sum 0.9"),
        (
            lambda probs: probs - np.array([[0, 0, 0, 0], [0.1, -0.1, 0, 0]]),
            "position 1 .*lowest -0.1",
        ),
        (lambda probs: probs[:, ::-1], "not a distribution over its legal"),
        (lambda probs: probs * math.nan, "sum nan"),
    ],
)
def test_what_is_no_distribution_over_the_legal_moves_is_refused(change: Any, message: str) -> None:
    probs, held = made([[(1, 0.2), (2, 0.3), (3, 0.5)], [(1, 0.0), (2, 0.0), (3, 1.0)]])
    with pytest.raises(ValueError, match=message):
        measure(change(probs), held)


def test_a_negative_temperature_is_refused() -> None:
    held = prepare_slice(load_heldout(), "decided")
    with pytest.raises(ValueError, match="temperature is -1"):
        policy_probs(small_policy(0), held, temperature=-1.0, device=CPU)
