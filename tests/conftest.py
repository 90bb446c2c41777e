"""What tests of several rooms share.

`--device cuda`: the tests that take the `device` fixture run there; everything else stays on the CPU.
"""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from algorithms.config.run import TrainConfig
from algorithms.evaluation.regret import HeldoutSlice, prepare_slice
from chess_env.positions.heldout import Heldout
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.board.browser import chromium
from tests.evaluation.policies import saved_run
from tests.forks import Forks
from tests.small import VecOf, make_vec

# An example may be the first that compiles a kernel, and the machine may be busy.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", choices=("cpu", "cuda"))


def pytest_collection() -> None:
    """Modules and thousands of tests stay: looking for garbage among them takes a quarter of a collection."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leaves them out of every later search for garbage."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    name = request.config.getoption("--device")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.exit("--device cuda: torch sees no CUDA device here", returncode=2)
    return torch.device(name)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real Chromium. There is one for all tests: Playwright does not start a second one beside it."""
    with chromium() as opened:
        yield opened


@pytest.fixture
def replace_training(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Makes `chess-lab train` call another function in place of the loop."""
    from algorithms.training import trainer

    return lambda train: monkeypatch.setattr(trainer, "train", train)


@pytest.fixture
def asked(replace_training: Callable[[Callable[..., Any]], None]) -> list[TrainConfig]:
    """What `chess-lab train` would have trained, without a fault."""
    from algorithms.training.session import Session

    configs: list[TrainConfig] = []

    def no_training(config: TrainConfig, *, make_session: Any = Session, **_: Any) -> None:
        assert make_session is Session
        configs.append(config)
        raise ValueError("nothing is trained here")

    replace_training(no_training)
    return configs


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> Iterator[None]:
    """The networks here are so small that a second thread only costs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True, scope="session")
def short_runs() -> Iterator[None]:
    """Runs of this process judge their policy on every eighth held-out position, wait for no disk and ask git once.

    A run of a few updates spent a third of its time with the whole table, and as much with 41 calls of `fsync`, which
    only a loss of power could tell from none. `whole_heldout` gives the table back.
    """
    from algorithms.run_folder import environment
    from algorithms.training import observer

    git = environment.git_state()

    def prepare_eighth(heldout: Heldout, name: str) -> HeldoutSlice:
        found = prepare_slice(heldout, name)
        rows = {
            field.name: np.ascontiguousarray(getattr(found, field.name)[::8])
            for field in dataclasses.fields(found)
            if field.name != "name"
        }
        return dataclasses.replace(found, **rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observer, "prepare_slice", prepare_eighth)
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(environment, "git_state", lambda: git)
        yield


@pytest.fixture
def whole_heldout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are judged on the whole held-out table, as they are outside tests."""
    from algorithms.training import observer

    monkeypatch.setattr(observer, "prepare_slice", prepare_slice)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """A process that runs commands of `chess-lab` one after the other, on Linux."""
    made = Forks()
    yield made
    made.close()


@pytest.fixture
def vec_of() -> Iterator[VecOf]:
    opened: list[ChessSelfPlayVectorEnv] = []

    def make(num_envs: int, **kwargs: Any) -> ChessSelfPlayVectorEnv:
        opened.append(make_vec(num_envs, **kwargs))
        return opened[-1]

    yield make
    for vec in opened:
        vec.close()


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with one checkpoint of `small_policy(0)`."""
    return saved_run(tmp_path_factory.mktemp("runs") / "small", seed=0)
