"""The example in one file learns what the package learns: the same losses, entropies and rewards at every update."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from algorithms.config.run import (
    EnvConfig,
    NetworkConfig,
    OptimizerConfig,
    RegularizerConfig,
    RolloutConfig,
    TrainConfig,
)
from algorithms.grpo import GRPO
from algorithms.reports.run_files import read_metrics
from algorithms.training.trainer import train
from tests.training.runs import Watcher

FILE = Path(__file__).parents[1] / "examples" / "grpo_single_file.py"
SAME = {
    "loss": "train/loss",
    "entropy": "policy/entropy",
    "reward": "rollout/reward_mean",
    "grad_norm": "train/grad_norm",
    "regret_cp": "eval/regret_cp",
}


@pytest.fixture
def single_file(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example as a module, whose network the package can name by `module:Name`."""
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, FILE.stem, module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def in_float64() -> Iterator[None]:
    """New networks are float64: Adam makes whole steps of rounding errors, and float32 curves soon part."""
    set_dtype = torch.set_default_dtype  # the test below puts another function in its place
    set_dtype(torch.float64)
    yield
    set_dtype(torch.float32)


def test_the_single_file_uses_nothing_of_the_algorithms() -> None:
    text = FILE.read_text(encoding="utf-8")
    tree = ast.parse(text)
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    ]
    assert not [name for name in imported if name and name.startswith("algorithms")]


@pytest.mark.usefixtures("whole_heldout")
def test_the_single_file_follows_the_package_update_by_update(
    single_file: ModuleType, in_float64: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # train() goes back to float32, in which roundings grow until another move is drawn.
    monkeypatch.setattr(torch, "set_default_dtype", lambda dtype: None)
    # A long step and a narrow clip range, so that both show within a few updates.
    settings = single_file.Settings(
        updates=6, num_envs=16, num_plies=3, group_size=4, temperature=1.3, minibatch_size=8,
        learning_rate=1e-2, clip_range=0.02, seed=5, eval_interval=3,
    )  # fmt: skip
    config = TrainConfig(
        algorithm=GRPO(group_size=4, clip_range=0.02),
        regularizer=RegularizerConfig(
            ent_coef=settings.ent_coef, ent_coef_final=settings.ent_coef_final
        ),
        policy=NetworkConfig(network=single_file.Net),
        rollout=RolloutConfig(num_envs=16, num_plies=3, temperature=1.3),
        env=EnvConfig(evaluator="builtin", start_positions=settings.start_positions),
        optimizer=OptimizerConfig(learning_rate=1e-2, minibatch_size=8),
        total_moves=6 * 16 * 3 * 4,
        eval_interval_updates=3,
        seed=5,
        device="cpu",
        run_dir=tmp_path / "run",
    )
    train(config, display=Watcher())
    package = read_metrics(tmp_path / "run")[1:]
    alone = single_file.train(settings, show=lambda line: None)
    assert len(alone) == len(package) == 6
    for own, theirs in zip(alone, package, strict=True):
        assert own["moves"] == theirs["scored_moves"]
        compared = {name: theirs[metric] for name, metric in SAME.items() if name in own}
        assert {name: own[name] for name in compared} == pytest.approx(compared, rel=1e-5)
    assert ["regret_cp" in row for row in alone] == [False, False, True] * 2
    # There was something to be equal in: samples without a gradient, and a policy that got better.
    assert max(row["policy/clip_fraction_low"] for row in package) > 0
    assert alone[2]["regret_cp"] - alone[5]["regret_cp"] > 5
