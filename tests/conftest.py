"""What tests of several rooms share.

`--device cuda`: the tests that take the `device` fixture run there; everything else stays on the CPU.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from algorithms.config.run import TrainConfig
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.evaluation.policies import saved_run
from tests.forks import Forks
from tests.small import VecOf, make_vec


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
