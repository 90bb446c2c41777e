from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from algorithms.pretraining.loop import pretrain
from tests.commands.lab import chess_lab
from tests.pretraining.runs import Quiet, tiny
from tests.trust.stranger import Stranger

RUN = ["--env.evaluator", "builtin", "--policy.size", "tiny", "--device", "cpu", "--no-preflight",
       "--total-moves", "16", "--rollout.num-envs", "2", "--rollout.num-plies", "1",
       "--diagnostics-interval-updates", "100"]  # fmt: skip


@pytest.fixture(scope="session")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of `chess-lab train grpo` in which everything is this project's."""
    folder = tmp_path_factory.mktemp("honest") / "run"
    answer = chess_lab("train", "grpo", *RUN, "--run-dir", folder)
    assert answer.code == 0, answer.err
    return folder


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of `chess-lab pretrain`."""
    folder = tmp_path_factory.mktemp("honest") / "pretrained"
    pretrain(tiny(folder), display=Quiet())
    return folder


@pytest.fixture
def make_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Stranger]:
    """Makes a stranger's folder of an honest one; the current folder is the one with their module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "path", [*sys.path]
    )  # a module that is looked up adds the current folder

    def make(honest: Path) -> Stranger:
        return Stranger(honest, tmp_path)

    return make


@pytest.fixture
def stranger(make_stranger: Callable[[Path], Stranger], honest: Path) -> Stranger:
    """The honest run, as a stranger may change it."""
    return make_stranger(honest)
