"""Runs of a second, and what two of them are compared by."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from algorithms.config.run import EnvConfig, OptimizerConfig, RolloutConfig, TrainConfig
from algorithms.grpo import GRPO
from algorithms.networks.settings import NetworkConfig
from algorithms.regularization import RegularizerConfig
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from algorithms.training.result import TrainResult
from algorithms.training.trainer import train

MOVES_PER_UPDATE = 8 * 2 * 4


def tiny(run_dir: Path, updates: int = 4, **changes: Any) -> TrainConfig:
    """A run of some updates, 64 scored moves and two optimizer steps in each."""
    settings: dict[str, Any] = {
        "algorithm": GRPO(group_size=4),
        "regularizer": RegularizerConfig(ent_coef=0.1),
        "policy": NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8),
        "rollout": RolloutConfig(num_envs=8, num_plies=2),
        "env": EnvConfig(evaluator="builtin", max_plies=6),
        # Constant, so that a longer budget does not change the updates before its end.
        "optimizer": OptimizerConfig(minibatch_size=8, lr_final=None, warmup_updates=0),
        "total_moves": updates * MOVES_PER_UPDATE,
        "eval_interval_updates": 2,
        "checkpoint_interval_updates": 1,
        "device": "cpu",
        "run_dir": run_dir,
    }
    return TrainConfig(**settings | changes)


class Watcher:
    """A display that calls back with each row."""

    def __init__(self, on_row: Callable[[Mapping[str, float]], None] = lambda row: None) -> None:
        self.on_row = on_row
        self.messages: list[str] = []

    def start(self, title: str, facts: Mapping[str, str]) -> None:
        self.messages.append(title)

    def show(self, row: Mapping[str, float], status: str) -> None:
        self.on_row(row)

    def say(self, message: str) -> None:
        self.messages.append(message)

    def stop(self) -> None:
        pass


def stop_at(
    *steps: int, number: signal.Signals = signal.SIGINT
) -> Callable[[Mapping[str, float]], None]:
    """Sends this process a signal when the row of one of these updates is shown."""

    def on_row(row: Mapping[str, float]) -> None:
        if row["step"] in steps:
            os.kill(os.getpid(), number)

    return on_row


def stopped_and_straight(folder: Path, at: int, **changes: Any) -> tuple[TrainResult, Path, Path]:
    """(a run's result when a signal stopped it, its folder, that of the same run never stopped).

    The stopped run was continued; both end in the same state, to the bit.
    """
    stopped, straight = folder / "stopped", folder / "straight"
    first = train(tiny(stopped, **changes), display=Watcher(stop_at(at)))
    assert first.stopped_by == "SIGINT"
    train(tiny(stopped, **changes), resume=True, display=Watcher())
    whole = train(tiny(straight, **changes), display=Watcher())
    assert whole.updates > first.updates
    assert_same(final_state(stopped), final_state(straight))
    return first, stopped, straight


def rows_without_time(run_dir: Path) -> list[dict[str, Any]]:
    """The record without what a clock decides, and without the first rollout's step-0 checks."""
    return [
        {k: v for k, v in row.items() if not k.startswith(("time/", "step0/"))}
        for row in read_metrics(run_dir)
    ]


def final_state(run_dir: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    newest = checkpoint.load_newest(run_dir / "checkpoints")
    state = dict(newest.state)
    progress = state.pop("progress")
    state["progress"] = {k: progress[k] for k in ("update", "plies", "scored_moves")}
    return newest.weights, state


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Raises where two nested states differ in a single bit."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}/{i}")
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    elif hasattr(a, "tobytes"):
        assert a.tobytes() == b.tobytes(), where
    else:
        assert a == b, where
