"""Shards of one process play side by side, and nothing that is learned depends on it."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from algorithms import PRESETS
from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.rollouts import worker
from algorithms.training.session import Session
from algorithms.training.trainer import train
from chess_env.evaluators import make_evaluator
from chess_env.evaluators.builtin import BuiltinEvaluator
from tests.training.runs import Watcher, assert_same, final_state, rows_without_time, tiny


def config_of(name: str, form: Any = "positions", **changes: Any) -> TrainConfig:
    """Three shards of four boards, so that two play at once and one follows."""
    algorithm, regularizer = PRESETS[name]
    rollout = RolloutConfig(form=form, num_envs=12, num_plies=2)
    return tiny(Path("unused"), algorithm=algorithm, regularizer=regularizer, rollout=rollout,
                optimizer=OptimizerConfig(minibatch_size=24), num_shards=3,
                total_moves=2 * 24 * algorithm.group_size, **changes)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "form", "env"),
    [
        ("grpo", "positions", EnvConfig(evaluator="builtin", num_threads=2)),
        ("ppo_one_ply", "positions", EnvConfig(evaluator="builtin")),
        ("dapo", "positions", EnvConfig(evaluator="builtin", start_positions="random_plies:2-9@balanced=300")),
        ("rloo", "games", EnvConfig(evaluator="builtin")),
        pytest.param("grpo", "positions", EnvConfig(evaluator="stockfish:depth=1"), marks=pytest.mark.stockfish),
    ],
    ids=["groups", "critic", "live groups", "games", "engines"],
)  # fmt: skip
def test_two_shards_at_once_make_the_record_of_one_after_the_other(
    name: str, form: str, env: EnvConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(name, form, env=env)
    for at_once in (1, 2):
        monkeypatch.setattr(worker, "AT_ONCE", at_once)
        train(dataclasses.replace(config, run_dir=tmp_path / str(at_once)), display=Watcher())
    (weights, state), (others, other_state) = (final_state(tmp_path / each) for each in "12")
    assert_same(weights, others)
    assert_same(state, other_state)
    assert rows_without_time(tmp_path / "1") == rows_without_time(tmp_path / "2")


class Crowded(BuiltinEvaluator):
    """Notes how many ask at once, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.most, self.fails = 0, 0, False
        self.askers: set[int] = set()

    def evaluate(self, positions: Any) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.askers.add(threading.get_ident())
        found = super().evaluate(positions)
        self.inside -= 1
        if self.fails:
            raise RuntimeError("out of order")
        return found


def test_the_evaluator_is_asked_by_several_threads_and_by_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowded = Crowded()
    monkeypatch.setattr("algorithms.training.session.make_evaluator", lambda *_, **__: crowded)
    session = Session(config_of("grpo", env=EnvConfig(evaluator="builtin", num_threads=1)))
    with contextlib.closing(session):
        session.worker.start()
        crowded.askers.clear()
        session.worker.collect(0, lambda moves: True)
        assert crowded.most == 1 and len(crowded.askers) == 2
        crowded.fails = True
        with pytest.raises(RuntimeError, match="out of order"):
            session.worker.collect(1, lambda moves: True)
    assert not [each for each in threading.enumerate() if each.name.startswith("ThreadPool")]


def test_what_a_run_asks_of_its_evaluator_is_the_evaluator_s_own() -> None:
    own = make_evaluator("builtin")
    asked = worker.OneAtATime(own)
    fens = ["8/P6k/8/8/8/8/7K/8 w - - 0 1"]
    assert asked.id == own.id and asked.pure == own.pure  # type: ignore[attr-defined]
    assert (asked.evaluate(fens) == own.evaluate(fens)).all()
    assert (asked.score_moves(fens)[0] == own.score_moves(fens)[0]).all()
    own.close()
