"""The preflight stops a faulty run before it learns, and leaves a healthy one exactly as it was."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms import cli
from algorithms.config import files as config_file
from algorithms.config.run import EnvConfig, RolloutConfig
from algorithms.doctor import diagnose_run
from algorithms.grpo import GRPO
from algorithms.networks.settings import NetworkConfig
from algorithms.ppo import PPO
from algorithms.reports.run_files import read_metrics
from algorithms.rollouts.collect import Collected
from algorithms.training.preflight import PreflightError, measure_first_rollout
from algorithms.training.session import Session
from algorithms.training.trainer import train
from chess_env.evaluators import CachedEvaluator
from tests.env.material import MaterialEvaluator
from tests.training.faults import ROLLOUT, judged, rolled, session_of
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
    assert [failure.name for failure in caught.value.failures] == ["temperature_mismatch"]
    message = str(caught.value)
    assert "1.3000 times the sampler's" in message
    assert "rollout.temperature" in message and "--no-preflight" in message


def test_the_record_of_a_refused_run_names_why_and_the_run_can_still_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_another_temperature(monkeypatch)
    with pytest.raises(PreflightError):
        train(tiny(tmp_path), display=Watcher())
    _, refused = read_metrics(tmp_path)
    assert (refused["step"], refused["plies"], refused["scored_moves"]) == (1, 16, 64)
    assert refused["step0/log_odds_slope"] == pytest.approx(1.3, abs=1e-3)
    assert not [name for name in refused if name.startswith("train/")]
    found = diagnose_run(tmp_path)
    assert [cause.name for cause in found.causes] == ["temperature_mismatch"]
    assert found.exit_code == 1
    train(tiny(tmp_path, updates=2, preflight=False), resume=True, display=Watcher())
    assert [row["step"] for row in read_metrics(tmp_path)] == [0, 1, 2]


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
        config = tiny(tmp_path / folder, updates=2, preflight=preflight_on, **RUNS[name])
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
        assert not judged(session, batch)
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
        metrics = measure_first_rollout(session, rolled(session))
    assert metrics["step0/preflight"] == on
    assert metrics["step0/log_odds_residual"] < 1e-5
    assert metrics["step0/repeat_error"] == 0


def test_a_slope_of_log_odds_that_rounding_alone_can_make_is_1() -> None:
    with session_of(init_logit_scale=1e-4) as session:
        batch = rolled(session)
        torch.manual_seed(0)
        rounded = batch.old_legal_logprobs * (1 + 1e-7 * torch.randn_like(batch.old_legal_logprobs))
        batch = dataclasses.replace(batch, old_legal_logprobs=rounded)
        metrics = measure_first_rollout(session, batch)
    assert metrics["step0/log_odds_slope"] == 1.0


def test_a_sampler_that_draws_at_random_is_measured_with_and_without_it() -> None:
    with session_of(policy=DROPPED, rollout=SYNCED, preflight=False) as session:
        session.learner.behaviour.train()
        batch = rolled(session)
        before = torch.get_rng_state()
        measured = measure_first_rollout(session, batch)
        assert torch.equal(torch.get_rng_state(), before)
        assert [cause.name for cause in judged(session, batch)] == ["forward_mismatch"]
        assert torch.equal(torch.get_rng_state(), before)
        assert session.learner.behaviour.training and not session.policy.training
    for name in ("step0/repeat_error", "step0/log_odds_residual"):
        assert measured[name] > 1e-3


def test_a_second_process_looks_again_and_a_resumed_run_may_switch_it_off(tmp_path: Path) -> None:
    stale = RolloutConfig(num_envs=8, num_plies=2, sync_interval_updates=3)
    train(tiny(tmp_path, updates=1, rollout=stale), display=Watcher())
    train(tiny(tmp_path, updates=2, rollout=stale), resume=True, display=Watcher())
    off = tiny(tmp_path, updates=3, rollout=stale, preflight=False)
    train(off, resume=True, display=Watcher())
    rows = read_metrics(tmp_path)
    assert [row.get("step0/preflight") for row in rows] == [None, 1, 1, 0]
    assert "step0/rescore_error_cp" in rows[2] and "step0/rescore_error_cp" not in rows[3]


def test_a_configuration_of_before_the_preflight_is_read_with_it_on(tmp_path: Path) -> None:
    values = config_file.to_dict(tiny(tmp_path))
    del values["preflight"]
    assert config_file.from_dict(values).preflight is True


def test_the_command_line_switches_it_off_and_the_folder_says_so(tmp_path: Path) -> None:
    least = ["--total-moves", "512", "--rollout.num-plies", "1"]
    assert cli.main([*SMOKE, *least, "--no-preflight", "--run-dir", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "config.json").read_text())["preflight"] is False
    assert read_metrics(tmp_path)[1]["step0/preflight"] == 0


def test_a_cache_that_holds_wrong_scores_is_told_from_an_engine_that_gives_them() -> None:
    with session_of(evaluator=lambda: CachedEvaluator(MaterialEvaluator())) as session:
        batch = rolled(session)
        assert batch.before_cp is not None
        assert judged(session, batch) == ()
        wrong = dataclasses.replace(batch, before_cp=batch.before_cp + 10)
        said = str(PreflightError(judged(session, wrong)))
    assert "impure_evaluator" in said and "10 centipawns" in said and "env.cache" in said


def test_a_state_that_depends_on_its_batch_is_found() -> None:
    with session_of() as session:
        forward = session.policy.squares

        def standardised(obs: torch.Tensor) -> torch.Tensor:
            squares = forward(obs)
            return squares - squares.mean(0)

        session.policy.squares = standardised  # type: ignore[method-assign]
        (found,) = judged(session, rolled(session))
    assert found.name == "forward_mismatch"
    assert "on what else is in its batch" in str(PreflightError((found,)))
