"""The cost model of `benchmarks.scale`: seconds of an update."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scale import cost, prediction
from benchmarks.scale.model import (
    Coefficients,
    Machines,
    Work,
    fit,
    rest_columns,
    rollout_columns,
    rollout_s,
    update_columns,
    update_s,
    with_crowding,
)
from docs.pages import result

WORK = Work(states=1000, plies=4, steps=10, positions=8000, multiply_adds=2e6, parameters=1e5)
ONE = Machines(processes=1, engines=1, cores=2, position_s=1e-3, overlaps=True)
TRUE = Coefficients(
    np.array([1e-3, 1e-4, 1e-10]),
    np.array([2e-3, 5e-5, 3e-10, 1e-9, 4e-3, 2e-9]),
    np.array([1e-2, 1e-6]),
)


def test_the_engines_are_the_limit_and_the_network_adds_one_ply_of_four() -> None:
    assert rollout_s(WORK, ONE, 1.0) == pytest.approx(8.0 + 1.0 / 4)


def test_the_network_is_the_limit_and_the_engines_add_one_ply_of_four() -> None:
    assert rollout_s(WORK, ONE._replace(position_s=1e-4), 1.0) == pytest.approx(1.0 + 0.8 / 4)


def test_two_engines_and_the_network_share_two_cores() -> None:
    assert rollout_s(WORK, ONE._replace(engines=2), 3.0) == pytest.approx((8.0 + 3.0) / 2)


def test_crowding_is_found_again_from_a_run_with_more_engines_than_cores() -> None:
    four = ONE._replace(engines=4)
    network_s = float(rollout_columns(WORK, four) @ TRUE.rollout)
    seconds = {"rollout": rollout_s(WORK, four, network_s, 0.3)}
    found = with_crowding(TRUE, (WORK, four, seconds))
    assert found.crowding == pytest.approx(0.3)
    assert update_s(WORK, ONE, found) == update_s(WORK, ONE, TRUE)  # two threads on two cores


def test_the_time_of_the_built_in_evaluator_is_added() -> None:
    assert rollout_s(WORK, ONE._replace(overlaps=False), 1.0) == pytest.approx(9.0)


def test_more_engines_than_cores_are_of_no_use() -> None:
    two, four = (rollout_s(WORK, ONE._replace(engines=n), 0.0) for n in (2, 4))
    assert two == four


@given(
    st.integers(1, 8), st.integers(1, 64), st.floats(0.01, 10), st.booleans(), st.integers(1, 16)
)
def test_another_engine_never_makes_a_rollout_longer(
    engines: int, cores: int, network_s: float, overlaps: bool, plies: int
) -> None:
    work = WORK._replace(plies=plies)
    machines = Machines(1, engines, cores, 1e-3, overlaps)
    more = machines._replace(engines=engines + 1)
    assert rollout_s(work, more, network_s) <= rollout_s(work, machines, network_s) + 1e-9


def test_a_fit_to_seconds_that_the_model_made_predicts_other_runs() -> None:
    machines = ONE._replace(overlaps=False)
    cases = [
        (WORK._replace(states=s, steps=s / 32, positions=7 * s, multiply_adds=f, parameters=p), m)
        for s, f, p in ((256, 5e5, 3e4), (256, 3e6, 3e5), (4096, 5e5, 3e4), (4096, 3e6, 3e5), (1024, 1e6, 1e5))
        for m in (machines, machines._replace(processes=2))
    ]  # fmt: skip
    found = fit([(work, m, _seconds(work, m)) for work, m in cases])
    other = WORK._replace(states=2048, steps=64, positions=7 * 2048, multiply_adds=2e6)
    for machines in (ONE, ONE._replace(engines=2), ONE._replace(processes=2)):
        expected = update_s(other, machines, TRUE)
        assert update_s(other, machines, found) == pytest.approx(expected, rel=0.02)


def test_no_coefficient_is_negative_where_larger_networks_were_faster_by_chance() -> None:
    machines = ONE._replace(overlaps=False)
    small, large = WORK._replace(multiply_adds=1e5), WORK._replace(multiply_adds=9e6)
    seconds = _seconds(small, machines)
    slower = {name: 1.1 * value for name, value in seconds.items()}
    found = fit([(small, machines, slower), (large, machines, seconds)])
    assert all((np.asarray(row) >= 0).all() for row in found)


def test_a_rollout_shorter_than_its_evaluator_is_refused() -> None:
    seconds = {"rollout": 7.9, "update": 1.0, "rest": 0.1}
    with pytest.raises(ValueError, match=r"7\.900 s has 8\.000 s of evaluator"):
        fit([(WORK, ONE._replace(overlaps=False), seconds)])


def _seconds(work: Work, machines: Machines) -> dict[str, float]:
    """Of the three stages, by the true coefficients."""
    return {
        "rollout": rollout_s(work, machines, float(rollout_columns(work, machines) @ TRUE.rollout)),
        "update": float(update_columns(work, machines) @ TRUE.update),
        "rest": float(rest_columns(work) @ TRUE.rest),
    }


def test_the_measured_runs_span_what_the_page_claims() -> None:
    every = (*cost.FITTED, cost.CROWDED, *cost.PREDICTED)
    assert len(set(every)) == len(every)
    for field, values in (
        ("processes", {1, 2}),
        ("engines", {1, 2, 3, 4}),
        ("size", {"tiny", "small", "medium", "large"}),
    ):
        assert {getattr(case, field) for case in cost.PREDICTED} == values
    boards = {case.boards for case in cost.PREDICTED}
    assert (min(boards), max(boards)) == (64, 4096)


def test_the_table_tells_fitted_runs_from_predicted_ones_and_their_errors() -> None:
    position_s = {
        "builtin": 1e-5,
        "stockfish:depth=4": 1e-3,
        "stockfish:nodes=300": 5e-4,
    }
    found = {}
    for case in (*cost.FITTED, cost.CROWDED, *cost.PREDICTED):
        work = cost.work_of(case, 7.0)
        seconds = _seconds(work, cost.machines_of(case, position_s, 2))
        found[case] = seconds | {"update_s": sum(seconds.values()), "positions": work.positions}
    slow = cost.PREDICTED[0]
    found[slow] = found[slow] | {"update_s": 2 * found[slow]["update_s"]}
    _, positions, rows = cost.fitted_to(found, position_s, 2)
    assert positions == pytest.approx(7.0)
    assert [row["fitted"] for row in rows].count("yes") == len(cost.FITTED) + 1
    errors = {case: row["error_percent"] for case, row in zip(found, rows, strict=True)}
    assert errors.pop(slow) == pytest.approx(100, abs=5)
    assert max(map(abs, errors.values())) <= 3


def test_the_prediction_for_many_engines_is_bounded_by_what_one_gpu_did() -> None:
    gpu = result("gpu")
    settings = {
        "positions_a_state": 7.0,
        "position_us": {prediction.ENGINE: 1000.0},
        "coefficients": {"update": [0.0] * 4 + [1e-3, 1e-9], "crowding": 0.0},
    }
    slow, fast = (
        prediction.rows_of({"settings": settings | {"position_us": {prediction.ENGINE: us}}}, gpu)
        for us in (1000.0, 1.0)
    )
    for slower, faster, name in zip(slow, fast, prediction.PREDICTED, strict=True):
        measured = dict(zip(prediction.CASES, gpu["rows"], strict=True))[name]
        few, many = (slower[f"plies_per_s, {n} engine cores"] for n in (8, 512))
        assert few < many / 10
        # Without its evaluator, a GPU is faster than it was with one.
        bound = 8 * measured["plies_per_s"] / (1 - measured["evaluator_percent"] / 100)
        assert many < faster["plies_per_s, 512 engine cores"] < 1.02 * bound
        shares = ("rollout_percent", "update_percent", "gradients_percent")
        assert sum(faster[share] for share in shares) <= 101


def test_a_search_of_other_nodes_is_predicted_from_two_that_were_timed() -> None:
    alone = dict(zip(cost.ALONE, (1e-5, 9e-4, 4e-4, 4e-4 + 380 * 2e-6), strict=True))
    position_s, node_s = cost.with_nodes(alone)
    assert node_s == pytest.approx(2e-6)
    assert position_s["stockfish:nodes=300"] == pytest.approx(4e-4 + 280 * 2e-6)
    assert {case.evaluator for case in (*cost.FITTED, cost.CROWDED, *cost.PREDICTED)} == {
        *position_s
    }
