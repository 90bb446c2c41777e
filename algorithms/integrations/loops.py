"""Every loop that `loop` can name: its checks, and how it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from algorithms.config.compatibility import check_settings
from algorithms.config.run import TrainConfig
from algorithms.integrations.sb3.session import train_sb3
from algorithms.integrations.sb3.settings import check_mappable
from algorithms.training.result import TrainResult
from algorithms.training.trainer import train


@dataclass(frozen=True)
class Loop:
    """One training loop.

    Attributes:
        train: runs a `TrainConfig`; takes `resume`, `display` and `watch` as `training.trainer.train`
            does.
        check: raises ValueError where the loop cannot do what a run asks for.
        resumes: whether a run can be continued.
    """

    train: Callable[..., TrainResult]
    check: Callable[[TrainConfig], None]
    resumes: bool


LOOPS = {
    "native": Loop(train, check_settings, resumes=True),
    "sb3": Loop(train_sb3, check_mappable, resumes=False),
}
