"""Pretraining runs of a second."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from algorithms.config.run import OptimizerConfig
from algorithms.networks.settings import NetworkConfig
from algorithms.pretraining.config import LabelConfig, PretrainConfig
from algorithms.pretraining.display import PretrainDisplay

SMALL = NetworkConfig(network="resnet", channels=8, blocks=1, head_dim=8)


def tiny_labels(**changes: Any) -> LabelConfig:
    """192 positions in shards of 64, labelled by the built-in evaluator."""
    config = LabelConfig(
        start_positions="random_plies:2-40",
        evaluator="builtin",
        walk_plies=3,
        num_positions=192,
        shard_size=64,
    )
    return dataclasses.replace(config, **changes)


def tiny(run_dir: Path | None, **changes: Any) -> PretrainConfig:
    """12 steps on 32 positions each, six of them an epoch; evaluations at every fourth."""
    config = PretrainConfig(
        labels=tiny_labels(),
        policy=SMALL,
        optimizer=OptimizerConfig(
            learning_rate=1e-2, lr_final=1e-3, warmup_updates=2, minibatch_size=32
        ),
        lr_decay_steps=8,
        total_steps=12,
        log_interval_steps=2,
        eval_interval_steps=4,
        device="cpu",
        run_dir=run_dir,
    )
    return dataclasses.replace(config, **changes)


class Quiet(PretrainDisplay):
    """A display that keeps messages, and calls back with each row."""

    def __init__(self, on_row: Callable[[Mapping[str, float]], None] = lambda row: None) -> None:
        super().__init__(total_steps=1, console=Console(quiet=True))
        self.on_row = on_row
        self.messages: list[str] = []

    def show(self, row: Mapping[str, float], status: str) -> None:
        self.on_row(row)

    def say(self, message: str) -> None:
        self.messages.append(message)
