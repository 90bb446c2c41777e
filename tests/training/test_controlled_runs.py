"""Whole runs whose algorithm or controllers ask the loop for more than a plain update."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms import ALGORITHMS, PRESETS
from algorithms.config import files as config_file
from algorithms.config.run import OptimizerConfig, RolloutConfig
from algorithms.core.algorithm import PolicyLoss
from algorithms.core.metrics import policy_metrics
from algorithms.exact import Exact
from algorithms.grpo import GRPO
from algorithms.networks.settings import PrecisionConfig
from algorithms.ppo import PPO
from algorithms.regularization import Regularizer, RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from algorithms.training.session import Session
from algorithms.training.trainer import train
from tests.training.runs import Watcher, rows_without_time, stop_at, stopped_and_straight, tiny

RECOVERY = RegularizerConfig(
    ent_coef=0.1,
    kl_old_coef=0.1,
    ent_controller="recovery",
    ent_alert=10.0,  # above any entropy: the controller acts at every second update
    ent_stop=0.01,
    ent_patience=2,
    temperature_step=0.3,
)
# Three updates each, whatever the algorithm.
CASES: dict[str, dict[str, Any]] = {
    "ppo": {"algorithm": PPO(update_epochs=2), "total_moves": 3 * 16},
    "games": {
        "algorithm": GRPO(group_size=4, credit="return_to_go"),
        "rollout": RolloutConfig(
            form="games", num_envs=4, num_plies=4, train_sides="start", teacher_fraction=0.5
        ),
        "total_moves": 3 * 32,
    },
    "recovery": {"regularizer": RECOVERY},
    "stale": {
        "regularizer": RegularizerConfig(kl_ref_coef=0.1, ref_refresh_interval=2),
        "rollout": RolloutConfig(num_envs=8, num_plies=2, sync_interval_updates=2),
    },
    "live groups": {
        "algorithm": GRPO(group_size=2, live_groups=True),
        "rollout": RolloutConfig(num_envs=8, num_plies=2, temperature=0.02),
        "total_moves": 300,
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_is_stopped_and_continued_equals_one_that_is_not(
    tmp_path: Path, name: str
) -> None:
    changes = {"checkpoint_interval_updates": 100, "diagnostics_interval_updates": 2} | CASES[name]
    first, stopped, straight = stopped_and_straight(tmp_path, 1, updates=3, **changes)
    rows = {path: rows_without_time(path) for path in (stopped, straight)}
    for row in (row for found in rows.values() for row in found):
        for key in [key for key in row if "cache" in key or "evaluations" in key]:
            row.pop(key)  # a process asks its evaluator for the starts of its own boards
        row.pop("rollout/engine_queries", None)
    at_stop = [row["step"] for row in rows[stopped]].index(first.updates)
    for index, (a, b) in enumerate(zip(rows[stopped], rows[straight], strict=True)):
        if index != at_stop:  # the last update before a stop is evaluated on all slices
            assert a == b, index


def test_a_controller_s_temperature_holds_from_the_next_rollout_on_and_is_logged(
    tmp_path: Path,
) -> None:
    train(tiny(tmp_path, updates=5, regularizer=RECOVERY), display=Watcher())
    rows = read_metrics(tmp_path)[1:]
    temperatures = [row["rollout/temperature"] for row in rows]
    assert temperatures == pytest.approx([1.0, 1.0, 1.3, 1.3, 1.6])
    coefficients = [row["reg/ent_coef"] for row in rows]
    assert coefficients == pytest.approx([0.1, 0.15, 0.15, 0.225, 0.225])
    state = checkpoint.load_newest(tmp_path / "checkpoints").state
    assert state["temperature"] == pytest.approx(1.6)


def test_a_controller_s_stop_ends_the_run_with_a_checkpoint_and_no_error(tmp_path: Path) -> None:
    stop = dataclasses.replace(RECOVERY, ent_alert=30.0, ent_stop=20.0)
    result = train(tiny(tmp_path, updates=5, regularizer=stop), display=Watcher())
    assert result.updates == 1
    assert result.stopped_by is not None and "below ent_stop 20.0" in result.stopped_by
    newest = checkpoint.load_newest(tmp_path / "checkpoints")
    assert newest.state["progress"]["update"] == 1
    assert "eval/regret_cp" in read_metrics(tmp_path)[-1]


def test_a_first_signal_while_a_controller_ends_the_run_still_leaves_a_checkpoint(
    tmp_path: Path,
) -> None:
    stop = dataclasses.replace(RECOVERY, ent_alert=30.0, ent_stop=20.0)
    result = train(tiny(tmp_path, updates=5, regularizer=stop), display=Watcher(stop_at(1)))
    assert (result.updates, result.stopped_by) == (1, "SIGINT")
    newest = checkpoint.load_newest(tmp_path / "checkpoints")
    assert newest.state["progress"]["update"] == 1


def test_a_warning_of_a_controller_is_shown_once(tmp_path: Path) -> None:
    saturated = dataclasses.replace(RECOVERY, ent_coef=0.1, ent_coef_max=0.1)
    watcher = Watcher()
    train(tiny(tmp_path, updates=4, regularizer=saturated), display=watcher)
    warnings = [message for message in watcher.messages if message.startswith("WARNING")]
    assert any("ent_coef" in message for message in warnings)
    assert len(warnings) == len(set(warnings))


def test_the_controllers_see_what_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[Any] = []
    original = Regularizer.update

    def spy(self: Regularizer, reading: Any, controls: Any) -> Any:
        readings.append(reading)
        return original(self, reading, controls)

    monkeypatch.setattr(Regularizer, "update", spy)
    config = RegularizerConfig(kl_ref_coef=0.1)
    twice = GRPO(4, update_epochs=2)
    train(tiny(tmp_path, updates=3, regularizer=config, algorithm=twice), display=Watcher())
    rows = read_metrics(tmp_path)[1:]
    assert [reading.update for reading in readings] == [0, 1, 2]
    assert [reading.progress for reading in readings] == pytest.approx([0, 1 / 3, 2 / 3])
    for reading, row in zip(readings, rows, strict=True):
        assert reading.entropy == pytest.approx(row["policy/entropy"], rel=1e-9)
        assert reading.entropy_normalized == pytest.approx(row["policy/entropy_normalized"])
        assert reading.kl_ref == pytest.approx(row["policy/kl_ref"], abs=1e-9)
    assert abs(readings[0].kl_old) < 1e-6
    assert readings[1].kl_old == rows[0]["reg/kl_old"] > 1e-6


def test_refreshing_the_reference_copies_the_policy_at_its_interval(tmp_path: Path) -> None:
    config = RegularizerConfig(kl_ref_coef=0.1, ref_refresh_interval=2)
    session = Session(tiny(tmp_path, regularizer=config))
    try:
        session.worker.start()
        assert session.worker.reference is not None
        distances = []
        for update in range(5):
            session.progress.update = update
            with torch.no_grad():
                session.policy.action_bias.add_(1.0)
            batch = session.rollout().batch
            session.control(policy_metrics(batch))
            gap = session.policy.action_bias - session.worker.reference.action_bias
            distances.append(round(float(gap.detach().mean()), 3))
    finally:
        session.close()
    assert distances == [1, 2, 0, 1, 0]


def test_scoring_all_moves_overdraws_the_budget_by_no_more_than_one_rollout(tmp_path: Path) -> None:
    config = tiny(tmp_path, algorithm=Exact(), total_moves=2_000)
    result = train(config, display=Watcher())
    rows = read_metrics(tmp_path)
    largest = max(row["rollout/scored_moves"] for row in rows[1:])
    assert result.scored_moves == sum(row["rollout/scored_moves"] for row in rows[1:])
    assert 2_000 - largest < result.scored_moves <= 2_000 + largest


def test_costly_diagnostics_come_at_their_interval(tmp_path: Path) -> None:
    train(tiny(tmp_path, updates=4, diagnostics_interval_updates=2), display=Watcher())
    rows = read_metrics(tmp_path)
    assert [row["step"] for row in rows if "grad_share/policy" in row] == [2, 4]
    assert [row["step"] for row in rows if "entropy/dh_realised" in row] == [2, 4]
    assert all("rollout/repeated_fraction" in row for row in rows[1:])


def test_dropout_in_a_run_is_said_to_have_no_effect(tmp_path: Path) -> None:
    config = tiny(tmp_path, updates=1)
    config = dataclasses.replace(config, policy=dataclasses.replace(config.policy, dropout=0.2))
    watcher = Watcher()
    train(config, display=watcher)
    assert any("policy.dropout is 0.2" in message for message in watcher.messages)


@pytest.mark.parametrize("changes", [{"head_dtype": "bfloat16"}, {"logprob_dtype": "bfloat16"}])
def test_a_run_in_coarse_precision_passes_its_own_check(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    config = tiny(tmp_path, updates=2)
    config = dataclasses.replace(config, precision=PrecisionConfig(**changes))
    train(config, display=Watcher())
    row = read_metrics(tmp_path)[1]
    assert row["step0/log_odds_slope"] == pytest.approx(1.0, abs=1e-3)
    assert row["ratio/mismatch"] is not None and row["ratio/mismatch"] < 0.1


@dataclasses.dataclass(frozen=True)
class Faulty(GRPO):
    """GRPO whose loss is undefined once."""

    def policy_loss(self, *given: Any) -> PolicyLoss:
        surrogate = super().policy_loss(*given)
        FAULTS.append(len(FAULTS))
        return PolicyLoss(surrogate.loss * torch.nan) if len(FAULTS) == 1 else surrogate


FAULTS: list[int] = []


def test_a_step_that_is_not_finite_is_left_out_and_its_batch_is_in_the_run_folder(
    tmp_path: Path,
) -> None:
    FAULTS.clear()
    watcher = Watcher()
    train(tiny(tmp_path, updates=2, algorithm=Faulty(group_size=4)), display=watcher)
    rows = read_metrics(tmp_path)[1:]
    assert [row["train/skipped_steps"] for row in rows] == [1, 0]
    assert [row["train/steps"] for row in rows] == [1, 2]
    kept = tmp_path / "bad_batches" / "update-0.safetensors"
    assert kept.exists() and any(str(kept) in message for message in watcher.messages)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_its_configuration_file(tmp_path: Path, name: str) -> None:
    algorithm, regularizer = PRESETS[name]
    config = tiny(
        tmp_path,
        algorithm=algorithm,
        regularizer=regularizer,
        preset=name,
        optimizer=OptimizerConfig(frozen_layers=("stem", "body.0")),
    )
    config_file.save(config, tmp_path / "config.json")
    loaded = config_file.load(tmp_path / "config.json")
    assert loaded == config and loaded.label == name
    config_file.check_resumable(loaded, config)
    assert type(loaded.algorithm) is ALGORITHMS[algorithm.name]
