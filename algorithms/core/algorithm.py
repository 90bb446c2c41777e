"""What the update asks of an algorithm, and the record of what a controller may change."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Protocol

from torch import Tensor

from algorithms.core.batch import FlatBatch, RolloutBatch
from algorithms.core.distribution import MaskedCategorical


@dataclasses.dataclass
class Controls:
    """Current values of what schedules and controllers may move.

    An algorithm's loss reads them here, never from its own fields.

    Attributes:
        clip_low: distance of the lower ratio bound from 1, in (0, 1].
        clip_high: distance of the upper ratio bound from 1, > 0; infinity switches it off.
    """

    clip_low: float
    clip_high: float

    def __post_init__(self) -> None:
        if not 0 < self.clip_low <= 1:
            raise ValueError(
                f"clip_low is {self.clip_low}: the lower ratio bound 1 - clip_low must lie in [0, "
                "1); "
                "set clip_low in (0, 1]"
            )
        if not self.clip_high > 0 or math.isnan(self.clip_high):
            raise ValueError(f"clip_high is {self.clip_high}: set clip_high > 0")

    def state_dict(self) -> dict[str, float]:
        """The current values, for a checkpoint."""
        return {"clip_low": self.clip_low, "clip_high": self.clip_high}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Takes the values over from `state_dict()`."""
        loaded = Controls(**state)
        self.clip_low, self.clip_high = loaded.clip_low, loaded.clip_high


class Algorithm(Protocol):
    """A frozen dataclass whose fields are the hyperparameters. It cannot reach the regulariser.

    Attributes:
        name: key in `ALGORITHMS`.
    """

    name: ClassVar[str]

    @property
    def group_size(self) -> int:
        """Samples per group."""
        ...

    @property
    def update_epochs(self) -> int:
        """Passes over each batch."""
        ...

    def controls(self) -> Controls:
        """A fresh `Controls` record with this algorithm's starting values."""
        ...

    def advantages(self, batch: RolloutBatch) -> Tensor:
        """Advantages shaped like `batch.rewards`; 0 where not valid."""
        ...

    def policy_loss(
        self, dist: MaskedCategorical, batch: FlatBatch, advantages: Tensor, controls: Controls
    ) -> Tensor:
        """`[N, K]` loss to minimise, before the mean over valid samples."""
        ...
