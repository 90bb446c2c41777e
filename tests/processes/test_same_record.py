"""A run's record depends on its shards, and not on how many processes carry them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS
from algorithms.config.run import RolloutConfig, TrainConfig
from algorithms.grpo import GRPO
from algorithms.processes import Processes
from algorithms.regularization import RegularizerConfig
from algorithms.training.trainer import train
from tests.processes.together import together
from tests.training.runs import Watcher, assert_same, final_state, rows_without_time, tiny

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks on Linux alone")
SHARDS = 4
RUNS = [
    ("exact", "positions"),  # all legal moves are scored
    ("repo", "positions"),  # the advantage is shaped
    ("rloo", "games"),  # a single step
    ("clip_cov", "games"),  # samples are drawn of the whole batch
    ("kl_cov", "games"),  # samples are ranked over the whole batch
]
"""One of each way in which the shards have to agree; a critic, groups and references have tests of their own."""


def config_of(name: str, form: Any, updates: int = 3) -> TrainConfig:
    """Two boards or starts a shard, and minibatches that are no multiple of the shards."""
    algorithm, regularizer = PRESETS[name]
    rollout = RolloutConfig(form=form, num_envs=8 if form == "positions" else 4, num_plies=3)
    group = 80 if algorithm.needs().all_moves else algorithm.group_size
    moves = rollout.num_envs * rollout.num_plies * group
    config = tiny(Path("unused"), algorithm=algorithm, regularizer=regularizer, rollout=rollout,
                  total_moves=updates * moves, num_shards=SHARDS)  # fmt: skip
    return dataclasses.replace(
        config, optimizer=dataclasses.replace(config.optimizer, minibatch_size=11)
    )


def carried(config: TrainConfig, folder: Path, count: int, *, resume: bool = False) -> Path:
    """The folder of the run that so many processes made."""
    here = dataclasses.replace(config, run_dir=folder)

    def work(processes: Processes) -> None:
        train(here, resume=resume, display=Watcher(), processes=processes)

    together(count, work)
    return folder


def assert_equal_runs(first: Path, second: Path) -> None:
    """Raises where weights, state or rows differ in a bit, but for what a clock decides."""
    weights, state = final_state(first)
    others, other_state = final_state(second)
    assert_same(weights, others)
    assert_same(state, other_state)
    assert rows_without_time(first) == rows_without_time(second)


def same_record(config: TrainConfig, folder: Path, counts: tuple[int, ...] = (2, 4)) -> None:
    alone = folder / "alone"
    train(dataclasses.replace(config, run_dir=alone), display=Watcher())
    for count in counts:
        assert_equal_runs(alone, carried(config, folder / str(count), count))


def test_two_processes_make_the_record_of_one_with_a_critic(tmp_path: Path) -> None:
    config = config_of("ppo", "positions", updates=2)
    alone = tmp_path / "alone"
    train(dataclasses.replace(config, run_dir=alone), display=Watcher())
    assert_equal_runs(alone, carried(config, tmp_path / "2", 2))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), RUNS, ids=lambda part: part)
def test_two_processes_make_the_record_of_one_whatever_an_algorithm_needs(
    name: str, form: str, tmp_path: Path
) -> None:
    same_record(config_of(name, form), tmp_path, (2,))


@pytest.mark.slow
def test_four_processes_make_the_record_of_one(tmp_path: Path) -> None:
    same_record(config_of("ppo", "games"), tmp_path, (4,))


@pytest.mark.slow
def test_a_reference_a_stale_sampler_and_controllers_are_the_same_too(tmp_path: Path) -> None:
    config = config_of("grpo", "positions", updates=5)
    config = dataclasses.replace(
        config,
        algorithm=GRPO(group_size=4, update_epochs=2, live_groups=True),
        regularizer=RegularizerConfig(ent_coef=0.1, ent_controller="target", kl_ref_coef=0.1, kl_old_coef=0.1),
        rollout=dataclasses.replace(config.rollout, sync_interval_updates=2, greedy_fraction=0.5),
    )  # fmt: skip
    same_record(config, tmp_path)


@pytest.mark.slow
def test_a_run_that_goes_on_in_another_number_of_processes_equals_one_that_was_not_stopped(
    tmp_path: Path,
) -> None:
    config = config_of("grpo", "positions", updates=3)
    # Constant, so that a longer budget does not change the updates before its end.
    config = dataclasses.replace(config, regularizer=RegularizerConfig(ent_coef=0.1))
    whole = carried(config, tmp_path / "whole", 2)
    parts = tmp_path / "parts"
    moves = config.total_moves // 3
    for done, count in enumerate((4, 1, 2), start=1):
        longer = dataclasses.replace(config, total_moves=done * moves)
        carried(longer, parts, count, resume=done > 1)
    weights, state = final_state(whole)
    others, other_state = final_state(parts)
    assert_same(weights, others)
    assert_same(state["shards"], other_state["shards"])
    assert_same(state["optimizer"], other_state["optimizer"])
