"""The cost model of `benchmarks.scale`: seconds of an update."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
