"""The preflight stops a faulty run before it learns, and leaves a healthy one exactly as it was."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algorithms import cli
from algorithms.config import files as config_file
from algorithms.config.run import EnvConfig, RolloutConfig
from algorithms.grpo import GRPO
from algorithms.networks.settings import NetworkConfig
from algorithms.ppo import PPO
from algorithms.reports.run_files import read_metrics
from algorithms.rollouts.dynamic_sampling import Collected
from algorithms.training.preflight import look, preflight, staleness
from algorithms.training.preflight.findings import PreflightError
from algorithms.training.preflight.first_rollout import check_evaluator
from algorithms.training.session import Session
from algorithms.training.trainer import train
from chess_env.evaluators import CachedEvaluator
from tests.env.material import MaterialEvaluator
from tests.training.faults import ROLLOUT, rolled, session_of
from tests.training.runs import Watcher, assert_same, final_state, rows_without_time, tiny

SMOKE = ["train", "grpo", "--smoke", "--env.evaluator", "builtin", "--device", "cpu"]


def record_another_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rollout is sampled at 1.3 and says 1.0."""
    collect = Session.rollout

    def rollout(session: Session) -> Collected:
        session.worker.temperature = 1.3
        collected = collect(session)
        batch = dataclasses.replace(collected.batch, temperature=1.0)
        return dataclasses.replace(collected, batch=batch)

    monkeypatch.setattr(Session, "rollout", rollout)


def test_a_faulty_run_stops_before_its_first_update_with_cause_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_another_temperature(monkeypatch)
    with pytest.raises(PreflightError) as caught:
        train(tiny(tmp_path), display=Watcher())
    assert [failure.cause for failure in caught.value.failures] == ["temperature"]
    message = str(caught.value)
    assert "1.3000 times the sampler's" in message and "sampled at 1.3" in message
    assert "rollout.temperature" in message and "--no-preflight" in message
    assert [row["step"] for row in read_metrics(tmp_path)] == [0]


def test_without_the_preflight_a_faulty_run_starts_says_so_and_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_another_temperature(monkeypatch)
    watcher = Watcher()
    assert train(tiny(tmp_path, updates=2, preflight=False), display=watcher).updates == 2
    assert any("preflight is switched off" in message for message in watcher.messages)
    first = read_metrics(tmp_path)[1]
    assert first["step0/preflight"] == 0
    assert first["step0/log_odds_slope"] == pytest.approx(1.3, abs=1e-3)
    assert first["step0/log_odds_residual"] < 1e-5
    assert first["step0/repeat_error"] == 0
    assert json.loads((tmp_path / "config.json").read_text())["preflight"] is False


RUNS: dict[str, dict[str, Any]] = {
    "stale sampler": {
        "algorithm": GRPO(group_size=4, update_epochs=2),
        "rollout": RolloutConfig(num_envs=8, num_plies=2, sync_interval_updates=2),
    },
    "critic and a score cache": {
        "algorithm": PPO(group_size=4, gamma=0.0),
        "env": EnvConfig(evaluator="builtin", max_plies=6, cache="memory"),
    },
    "games": {
        "rollout": RolloutConfig(form="games", num_envs=8, num_plies=2),
        "policy": NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8, dropout=0.1),
    },
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_the_same_in_every_bit_with_and_without_it(tmp_path: Path, name: str) -> None:
    for folder, preflight_on in (("with", True), ("without", False)):
        config = tiny(tmp_path / folder, updates=3, preflight=preflight_on, **RUNS[name])
        train(config, display=Watcher())
    assert_same(final_state(tmp_path / "with"), final_state(tmp_path / "without"))
    assert rows_without_time(tmp_path / "with") == rows_without_time(tmp_path / "without")


def test_looking_leaves_the_session_and_the_global_random_state_alone() -> None:
    with session_of(algorithm=GRPO(group_size=4, update_epochs=2)) as session:
        batch = rolled(session)
        session.usage.count(session.progress)
        before = session.state(), torch.get_rng_state(), dataclasses.replace(batch)
        weights = {name: value.clone() for name, value in session.policy.state_dict().items()}
        asked = session.evaluator.counters()["queries"]
        assert not preflight(session, batch).failures
        assert_same(session.state(), before[0])
        assert_same(session.policy.state_dict(), weights)
        assert torch.equal(torch.get_rng_state(), before[1])
        assert all(parameter.requires_grad for parameter in session.policy.parameters())
        assert session.evaluator.counters()["queries"] > asked
        evaluations = session.progress.evaluations
        session.usage.count(session.progress)
        assert session.progress.evaluations == evaluations


SYNCED = dataclasses.replace(ROLLOUT, sync_interval_updates=4)
DROPPED = NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8, dropout=0.1)


@pytest.mark.parametrize("on", [True, False])
def test_a_healthy_record_says_that_sampler_and_learner_are_one_with_and_without_it(
    on: bool,
) -> None:
    with session_of(policy=DROPPED, preflight=on) as session:
        metrics = look(session, rolled(session), lambda message: None)
    assert metrics["step0/preflight"] == on
    assert metrics["step0/log_odds_residual"] < 1e-5
    assert metrics["step0/repeat_error"] == 0


def test_a_sampler_that_draws_at_random_is_measured_with_and_without_it() -> None:
    with session_of(policy=DROPPED, rollout=SYNCED, preflight=False) as session:
        session.learner.behaviour.train()
        batch = rolled(session)
        before = torch.get_rng_state()
        unjudged = look(session, batch, lambda message: None)
        assert torch.equal(torch.get_rng_state(), before)
        report = preflight(session, batch)
        assert torch.equal(torch.get_rng_state(), before)
        assert session.learner.behaviour.training and not session.policy.training
    assert [failure.cause for failure in report.failures] == ["dropout"]
    for name in ("step0/repeat_error", "step0/log_odds_residual"):
        assert unjudged[name] == report.metrics[name] > 1e-3


def test_a_second_process_looks_again_and_a_resumed_run_may_switch_it_off(tmp_path: Path) -> None:
    stale = RolloutConfig(num_envs=8, num_plies=2, sync_interval_updates=3)
    train(tiny(tmp_path, updates=1, rollout=stale), display=Watcher())
    train(tiny(tmp_path, updates=2, rollout=stale), resume=True, display=Watcher())
    off = tiny(tmp_path, updates=3, rollout=stale, preflight=False)
    train(off, resume=True, display=Watcher())
    rows = read_metrics(tmp_path)
    assert [row.get("step0/preflight") for row in rows] == [None, 1, 1, 0]
    assert "step0/stale_ess" in rows[1] and "step0/stale_ess" not in rows[2]


def test_a_configuration_of_before_the_preflight_is_read_with_it_on(tmp_path: Path) -> None:
    values = config_file.to_dict(tiny(tmp_path))
    del values["preflight"]
    assert config_file.from_dict(values).preflight is True


def test_the_command_line_switches_it_off_and_the_folder_says_so(tmp_path: Path) -> None:
    assert cli.main([*SMOKE, "--no-preflight", "--run-dir", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "config.json").read_text())["preflight"] is False
    assert read_metrics(tmp_path)[1]["step0/preflight"] == 0


def test_a_cache_that_holds_wrong_scores_is_told_from_an_engine_that_gives_them() -> None:
    with session_of(evaluator=lambda: CachedEvaluator(MaterialEvaluator())) as session:
        batch = rolled(session)
        assert batch.before_cp is not None
        assert check_evaluator(batch, session.evaluator)[1] == []
        wrong = dataclasses.replace(batch, before_cp=batch.before_cp + 10)
        _, (found,) = check_evaluator(wrong, session.evaluator)
        assert found.cause == "evaluator_cache" and "env.cache" in found.remedy


def test_planes_of_another_board_than_the_hash_are_found() -> None:
    with session_of() as session:
        batch = rolled(session)
        assert batch.position_hash is not None
        swapped = dataclasses.replace(batch, position_hash=batch.position_hash.flip(0))
        assert [f.cause for f in preflight(session, swapped).failures] == ["observation"]


def test_a_state_that_depends_on_its_batch_is_found() -> None:
    with session_of() as session:
        forward = session.policy.squares

        def standardised(obs: torch.Tensor) -> torch.Tensor:
            squares = forward(obs)
            return squares - squares.mean(0)

        session.policy.squares = standardised  # type: ignore[method-assign]
        assert [f.cause for f in preflight(session, rolled(session)).failures] == ["batch_shape"]


def test_every_warning_is_said_once_and_a_controller_s_by_the_controller(tmp_path: Path) -> None:
    watcher = Watcher()
    env = EnvConfig(evaluator="builtin", start_positions="initial", max_plies=2)
    regularizer = dataclasses.replace(
        tiny(tmp_path).regularizer, ent_controller="floor", ent_floor=5.0
    )
    config = tiny(tmp_path, env=env, regularizer=regularizer, total_moves=640)
    train(config, display=watcher)
    said = [message for message in watcher.messages if message.startswith("WARNING")]
    assert sum("fixed_positions" in message for message in said) == 1
    assert sum("starts out of range" in message for message in said) == 1


def test_an_algorithm_that_plays_no_second_epoch_pays_for_no_dry_run() -> None:
    with session_of(rollout=ROLLOUT) as session:
        metrics = preflight(session, rolled(session)).metrics
    assert not [name for name in metrics if "stale" in name]
    assert all(np.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("form", ["positions", "games"])
def test_a_costly_dry_run_takes_a_part_of_the_starts_in_as_many_steps(
    monkeypatch: pytest.MonkeyPatch, form: Any
) -> None:
    steps: list[float] = []
    update = staleness.update

    def counting(*arguments: Any, **settings: Any) -> dict[str, float]:
        metrics = update(*arguments, **settings)
        steps.append(metrics["train/steps"])
        return metrics

    monkeypatch.setattr(staleness, "update", counting)
    rollout = dataclasses.replace(ROLLOUT, form=form, sync_interval_updates=3)
    with session_of(rollout=rollout) as session:
        batch = rolled(session)
        whole = preflight(session, batch).metrics
        states = batch.obs.shape[:-3].numel()
        monkeypatch.setattr(staleness, "MAX_STATE_PASSES", states * 3 // 4)
        part = preflight(session, batch).metrics
    assert len(steps) == 6 and len(set(steps)) == 1
    assert part["step0/stale_ess"] != whole["step0/stale_ess"]
