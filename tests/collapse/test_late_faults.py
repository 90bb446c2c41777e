"""A fault that begins later leaves the updates before it as they were; a continued run has it from its first one."""

from __future__ import annotations

from pathlib import Path

import pytest

from algorithms.collapse import faults
from algorithms.config.run import TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.doctor import diagnose_run
from algorithms.reports.run_files import read_metrics
from algorithms.training.session import Session
from algorithms.training.trainer import train
from tests.collapse.bits import differing
from tests.training.faults import session_of
from tests.training.runs import MOVES_PER_UPDATE, Watcher, tiny

SLOPE = "ratio/log_odds_slope_first_minibatch"
RESIDUAL = "ratio/log_odds_residual_first_minibatch"


def batches(fault: faults.Fault | None, updates: int = 4) -> list[RolloutBatch]:
    """Those of the first updates, without any step between."""
    with session_of(3, spread=1.0) as session:
        if fault is not None:
            fault(session)
        found = []
        for update in range(updates):
            session.progress.update = update
            found.append(session.rollout().batch)
        return found


@pytest.mark.parametrize(
    ("fault", "field"),
    [(faults.learner_temperature(0.5), "temperature"), (faults.squashed_reward(20.0), "rewards")],
    ids=["temperature", "reward"],
)
def test_a_late_fault_of_the_batches_begins_at_its_update(fault: faults.Fault, field: str) -> None:
    changed = zip(batches(None), batches(faults.from_update(2, fault)), strict=True)
    assert [differing(*pair) for pair in changed] == [set(), set(), {field}, {field}]
    always = zip(batches(fault), batches(faults.from_update(0, fault)), strict=True)
    assert not any(differing(*pair) for pair in always)


def test_a_late_fault_of_the_samplers_weights_begins_at_its_update() -> None:
    with session_of(3, spread=1.0) as session:
        faults.from_update(2, faults.sampler_keeps_noise(0.8))(session)
        stds = []
        for update in range(4):
            session.progress.update = update
            session.rollout()
            sampler, learner = (
                policy.logit_factors().action_bias.detach()
                for policy in (session.learner.behaviour, session.policy)
            )
            stds.append(float((sampler - learner).std()))
    assert stds == [0.0, 0.0, pytest.approx(0.8, rel=0.05), pytest.approx(0.8, rel=0.05)]


def test_two_late_faults_begin_each_at_its_own_update() -> None:
    def both(session: Session) -> None:
        faults.from_update(1, faults.learner_temperature(0.5))(session)
        faults.from_update(3, faults.squashed_reward(20.0))(session)

    changed = zip(batches(None), batches(both), strict=True)
    wanted = [set(), {"temperature"}, {"temperature"}, {"temperature", "rewards"}]
    assert [differing(*pair) for pair in changed] == wanted


def test_a_run_has_its_parts_made_anew_where_it_is_continued_and_their_fault_is_seen_from_there(
    tmp_path: Path,
) -> None:
    made: list[bool] = []

    def make_session(settings: TrainConfig, *, fresh: bool) -> Session:
        made.append(fresh)
        session = Session(settings, fresh=fresh)
        if not fresh:
            faults.learner_temperature(0.5)(session)
        return session

    config = tiny(tmp_path / "run", updates=4, preflight=False)
    train(config, display=Watcher(), make_session=make_session)
    longer = tiny(tmp_path / "run", updates=10, preflight=False)
    assert longer.total_moves == 10 * MOVES_PER_UPDATE
    train(longer, display=Watcher(), make_session=make_session, resume=True)
    assert made == [True, False]
    rows = [row for row in read_metrics(tmp_path / "run") if SLOPE in row]
    slopes = [row[SLOPE] for row in rows]
    assert slopes[:4] == [pytest.approx(1.0, abs=1e-3)] * 4
    assert slopes[4:] == [pytest.approx(2.0, rel=1e-3)] * 6
    assert all(row[RESIDUAL] < 1e-4 for row in rows)
    (cause,) = (c for c in diagnose_run(tmp_path / "run").causes if c.is_harmful)
    assert (cause.name, cause.verdict.since) == ("temperature_mismatch", 5)  # type: ignore[union-attr]
