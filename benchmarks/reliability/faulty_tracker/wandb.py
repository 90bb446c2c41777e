"""A tracker that hangs and fails when it is told to; a run imports it in place of Weights & Biases.

The run that `benchmarks.reliability.soak` starts has this folder on its path. `SOAK_TRACKER` names a folder: while it
holds a file `stall`, the tracker shows no row; once it holds a file `fail`, the tracker raises. Its file `shown` gets a
line with the step of each row that was shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path


class Run:
    """What `init` returns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Shows one row, late or never."""
        while (self._folder / "stall").exists():
            time.sleep(0.05)
        if (self._folder / "fail").exists():
            raise ConnectionError("the server of this tracker is gone")
        with (self._folder / "shown").open("a", encoding="utf-8") as shown:
            shown.write(f"{step}\n")

    def finish(self) -> None:
        """Nothing is left to do."""


def Settings(**settings: object) -> dict[str, object]:
    """The settings, none of which this tracker has."""
    return settings


def init(**_: object) -> Run:
    """A run in the folder that `SOAK_TRACKER` names."""
    return Run(Path(os.environ["SOAK_TRACKER"]))
