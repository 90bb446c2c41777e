"""A configuration is checked where it is built and survives its JSON file."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from algorithms.commands import train
from algorithms.commands.run_options import given
from algorithms.config import files as config_file
from algorithms.config.changes import changed
from algorithms.config.run import (
    EnvConfig,
    OptimizerConfig,
    RolloutConfig,
    TrainConfig,
    smoke,
)
from algorithms.grpo import GRPO
from algorithms.regularization import RegularizerConfig


def _config(**changes: Any) -> TrainConfig:
    return TrainConfig(algorithm=GRPO(), **changes)


def test_the_json_file_gives_the_same_configuration_back(tmp_path: Path) -> None:
    config = TrainConfig(
        algorithm=GRPO(group_size=5, clip_range_high=0.28),
        regularizer=RegularizerConfig(ent_coef=0.03, ent_coef_final=0.01),
        rollout=RolloutConfig(form="games", temperature=1.3),
        env=EnvConfig(evaluator="builtin", cache="memory"),
        run_dir=tmp_path / "a run",
    )
    config_file.save(config, tmp_path / "config.json")
    assert config_file.load(tmp_path / "config.json") == config
    assert json.loads((tmp_path / "config.json").read_text())["algorithm"]["name"] == "grpo"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GRPO(group_size=1), "group_size is 1"),
        (lambda: RolloutConfig(temperature=0.0), "rollout.temperature is 0.0"),
        (lambda: RolloutConfig(temperature=float("nan")), "rollout.temperature is nan"),
        (lambda: RolloutConfig(form="game"), "rollout.form is 'game'"),  # type: ignore[arg-type]
        (lambda: RolloutConfig(form="game"), "did you mean 'games'"),  # type: ignore[arg-type]
        (lambda: RolloutConfig(num_envs=0), "rollout.num_envs is 0"),
        (lambda: RolloutConfig(num_envs=2.5), "rollout.num_envs is 2.5"),  # type: ignore[arg-type]
        (lambda: RolloutConfig(train_sides="start"), "set rollout.form to games"),
        (lambda: EnvConfig(evaluator="none"), "training needs scores"),
        (lambda: OptimizerConfig(learning_rate=-1.0), "optimizer.learning_rate is -1.0"),
        (lambda: OptimizerConfig(lr_final=-1.0), "optimizer.lr_final is -1.0"),
        (lambda: OptimizerConfig(lr_final=float("inf")), "optimizer.lr_final is inf"),
        (lambda: _config(total_moves=0), "total_moves is 0"),
        (lambda: _config(seed=-1), "seed is -1"),
        (lambda: _config(device="tpu"), "device is 'tpu'"),
        (lambda: _config(track="mlflow"), "track is 'mlflow'"),
        (lambda: TrainConfig(algorithm=GRPO), "give an instance"),
    ],
)
def test_a_value_out_of_range_is_named_with_the_remedy(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_an_unknown_field_or_algorithm_in_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    values = config_file.to_dict(_config())
    for change, message in (
        (
            {"rollout": {**values["rollout"], "temprature": 1.0}},
            "rollout: unknown field temprature",
        ),
        ({"algorithm": {"name": "grop"}}, "algorithm is 'grop': .*did you mean 'grpo'"),
        ({"algorithm": {}}, "without an algorithm"),
        ({"rollout": {**values["rollout"], "temperature": -1.0}}, "temperature is -1.0"),
    ):
        path.write_text(json.dumps({**values, **change}))
        with pytest.raises(ValueError, match=message):
            config_file.load(path)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is not a readable"):
        config_file.load(path)


def test_the_command_line_reaches_every_nested_field() -> None:
    arguments = ["--algorithm.group-size", "4", "--env.evaluator", "builtin", "--total-moves", "9"]
    settings = given(train.make_parser(_config()), arguments, _config())
    config = changed(_config(), settings)
    assert config.algorithm == GRPO(group_size=4)
    assert (config.env.evaluator, config.total_moves) == ("builtin-v2", 9)


def test_every_field_has_a_help_text() -> None:
    for cls in (TrainConfig, RolloutConfig, EnvConfig, OptimizerConfig):
        text = inspect.getdoc(cls)  # without the indentation, which Python 3.13 leaves out itself
        assert text is not None
        for field in dataclasses.fields(cls):
            assert f"\n    {field.name}: " in text, f"{cls.__name__}.{field.name}"


def test_the_learning_rate_warms_up_and_then_falls_linearly() -> None:
    optimizer = OptimizerConfig(learning_rate=1.0, lr_final=0.2, warmup_updates=3)
    rates = [optimizer.learning_rate_at(update, 0.0) for update in range(5)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert optimizer.learning_rate_at(100, 0.5) == pytest.approx(0.6)
    assert optimizer.learning_rate_at(100, 1.7) == pytest.approx(0.2)
    constant = OptimizerConfig(learning_rate=0.3, lr_final=None, warmup_updates=0)
    assert constant.learning_rate_at(7, 0.9) == 0.3


def test_a_continued_run_may_be_longer_but_not_different() -> None:
    old = _config(env=EnvConfig(evaluator="builtin"))
    config_file.check_resumable(old, dataclasses.replace(old, total_moves=10, track="wandb"))
    other = dataclasses.replace(old, rollout=RolloutConfig(temperature=1.3))
    with pytest.raises(ValueError, match=r"rollout.temperature 1.0 -> 1.3"):
        config_file.check_resumable(old, other)


def test_the_smoke_run_keeps_what_is_being_checked() -> None:
    config = _config(env=EnvConfig(evaluator="stockfish:depth=4"), seed=3)
    small = smoke(config)
    assert (small.env, small.seed, small.algorithm.name) == (config.env, 3, "grpo")
    assert small.total_moves < 5_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"policy": null}', "policy is None: expected an object"),
        (
            '{"rollout": {"temperature": 1' + "0" * 400 + "}}",
            r"config\.rollout\.temperature is 10+\.\.\.: expected a number",
        ),
    ],
)
def test_what_no_run_writes_into_its_configuration_is_named(
    text: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    written = json.loads(json.dumps(config_file.to_dict(_config(run_dir=tmp_path))))
    path.write_text(json.dumps(written)[:-1] + ", " + text[1:])  # the last of two equal keys counts
    with pytest.raises(ValueError, match=says):
        config_file.load(path)
