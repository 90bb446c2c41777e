"""What a run's settings cause names these settings."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from algorithms.config.changes import changed
from algorithms.config.names import named_run
from algorithms.pretraining.config import PretrainConfig
from algorithms.training.failures import settings_named
from algorithms.updates.learner import NonFiniteError


def _raise(error: Exception) -> Callable[[Any], None]:
    def run(config: Any) -> None:
        raise error

    return settings_named(run)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"regularizer.ent_coef": 1e12}, r"usual value: regularizer\.ent_coef is 1e\+12$"),
        ({"optimizer.learning_rate": 1e10}, r"usual value: optimizer\.learning_rate is 1e\+10$"),
        (
            {"rollout.temperature": 1e-3, "algorithm.clip_range_high": 1e9},
            r"algorithm\.clip_range_high is 1e\+09, rollout\.temperature is 0\.001$",
        ),
        ({}, r"Lower optimizer\.learning_rate \(0\.003\) or optimizer\.max_grad_norm \(1\)"),
    ],
)
def test_steps_that_are_not_finite_name_the_settings_that_stand_far_outside(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(NonFiniteError, match=said):
        _raise(NonFiniteError("3 in a row"))(changed(named_run("grpo"), settings))


@pytest.mark.parametrize("allocate", [torch.empty, np.empty])
def test_too_little_memory_names_the_settings_that_decide_it(allocate: Any) -> None:
    run = settings_named(lambda config: allocate(2**57))
    sizes = (
        r"too little \(.*\) for this run, .*policy\.channels 64, .*minibatch_size 32, "
        r".*num_envs 64, .*num_plies 4, .*group_size 8"
    )
    with pytest.raises(RuntimeError, match=sizes):
        run(named_run("grpo"))
    with pytest.raises(RuntimeError, match=r"policy\.channels 64, .*labels\.shard_size 8,192"):
        run(PretrainConfig())


def test_too_few_processes_name_the_settings_and_other_errors_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"env\.num_engines 2, num_threads 1"):
        _raise(OSError(errno.EAGAIN, "Resource temporarily unavailable"))(named_run("grpo"))
    for error in (RuntimeError("mine"), OSError(errno.ENOENT, "mine"), ValueError("mine")):
        with pytest.raises(type(error)) as found:
            _raise(error)(named_run("grpo"))
        assert found.value is error


def test_the_errors_of_a_run_are_those_of_its_settings(tmp_path: Any) -> None:
    from algorithms.config.run import smoke
    from algorithms.training.trainer import train

    config = changed(
        smoke(named_run("grpo")),
        {"optimizer.learning_rate": 1e15, "env.evaluator": "builtin", "device": "cpu"},
    )
    with pytest.raises(NonFiniteError, match=r"optimizer\.learning_rate is 1e\+15"):
        train(dataclasses.replace(config, run_dir=tmp_path / "run"))
