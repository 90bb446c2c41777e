from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.playing.policies import saved_run


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> Iterator[None]:
    """The networks here are so small that a second thread only costs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with one checkpoint of `small_policy(0)`."""
    return saved_run(tmp_path_factory.mktemp("runs") / "small", seed=0)
