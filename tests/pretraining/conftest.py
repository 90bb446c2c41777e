from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from algorithms.pretraining.loop import pretrain
from tests.pretraining.runs import Quiet, tiny


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> Iterator[None]:
    """The networks here are so small that a second thread only costs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of `tiny`, through to its end; not to be written to."""
    run_dir = tmp_path_factory.mktemp("runs") / "pretrained"
    pretrain(tiny(run_dir), display=Quiet())
    return run_dir
