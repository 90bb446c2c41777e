"""A run's shards: the parts that its boards and minibatches are divided into, whoever carries them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from algorithms.processes.group import Alone, Processes


def check_division(num_shards: int, num_processes: int) -> None:
    """Raises ValueError where the processes cannot carry the same number of shards each."""
    if num_shards % num_processes:
        raise ValueError(
            f"num_shards is {num_shards} and there are {num_processes} processes: each carries the same "
            f"number of shards; set --num-shards to a multiple of {num_processes}"
        )


@dataclass(frozen=True)
class Shards:
    """The parts of a run. What is computed depends on their number alone, never on the processes'.

    Attributes:
        count: how many there are.
        processes: that carry them, each the same number.

    Raises:
        ValueError: the processes cannot carry the same number of shards each.
    """

    count: int = 1
    processes: Processes = field(default_factory=Alone)

    def __post_init__(self) -> None:
        check_division(self.count, self.processes.count)

    @property
    def own(self) -> range:
        """Numbers of the shards that this process carries."""
        each = self.count // self.processes.count
        return range(self.processes.rank * each, (self.processes.rank + 1) * each)

    def gather(self, values: Sequence[Any]) -> list[Any]:
        """Every shard's value, in the order of shards, given those of one's own."""
        return [value for part in self.processes.gather(list(values)) for value in part]

    def gather_tensors(self, values: Sequence[Tensor]) -> Tensor:
        """`[shards, ...]`: every shard's tensor, given those of one's own; all have one shape."""
        return self.processes.gather_tensor(torch.stack(list(values))).flatten(0, 1)
