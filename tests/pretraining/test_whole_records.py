"""What a run cannot be continued without is replaced as a whole, or left as it was."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from algorithms.config import files as config_file
from algorithms.config.run import TrainConfig
from algorithms.grpo import GRPO
from algorithms.pretraining import config as pretraining
from algorithms.pretraining.config import PretrainConfig
from algorithms.run_folder import environment


def write_record(path: Path) -> None:
    environment.write_record(path, {"started": "now"}, resumed=False)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: pretraining.save(PretrainConfig(), path),
        lambda path: config_file.save(TrainConfig(algorithm=GRPO()), path),
        write_record,
    ],
    ids=["config.json of pretraining", "config.json of training", "environment.json"],
)
def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    path = tmp_path / "file.json"
    path.write_text("what was there before")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            write(path)
    assert path.read_text() == "what was there before"
    write(path)
    assert path.read_text().startswith("{") and path.read_text().endswith("}\n")
