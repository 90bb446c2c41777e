from __future__ import annotations

from pathlib import Path

import pytest

from algorithms.pretraining.loop import pretrain
from tests.pretraining.runs import Quiet, tiny


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of `tiny`, through to its end; not to be written to."""
    run_dir = tmp_path_factory.mktemp("runs") / "pretrained"
    pretrain(tiny(run_dir), display=Quiet())
    return run_dir
