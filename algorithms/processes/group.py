"""What the processes of a run tell each other, by the order of their ranks, and the shards that they carry."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from algorithms.run_folder.checkpoint import pack, unpack

_SKELETON = "$skeleton"


class ProcessLostError(RuntimeError):
    """Another process of the run has ended, and this one cannot go on without it."""


class Processes:
    """The processes that carry a run; every method is called by all of them, in the same order. Here there is one.

    Attributes:
        rank: which one this is, from 0; 0 writes the record.
        count: how many there are.
        count_here: how many of them this machine has.
    """

    rank, count, count_here = 0, 1, 1

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, by rank; values are JSON, tuples, arrays and CPU tensors, nested."""
        return [value]

    def gather_tensor(self, value: Tensor) -> Tensor:
        """`[count, ...]`: every process's tensor, by rank; all have one shape."""
        return value.unsqueeze(0)

    def any(self, flag: bool) -> bool:
        """Whether a process says True."""
        return bool(self.gather_tensor(torch.tensor([flag])).any())


class Group(Processes):
    """Several processes, by torch.distributed, whose group is there (`joined_processes`).

    Only numbers and JSON are exchanged: torch's own collectives for objects unpickle what arrives.
    """

    def __init__(self) -> None:
        import torch.distributed as dist

        is_renamed = hasattr(dist, "all_gather_single")  # torch then warns of the older name
        self._gather_into = dist.all_gather_single if is_renamed else dist.all_gather_into_tensor
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.count_here = int(os.environ.get("LOCAL_WORLD_SIZE", self.count))

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, by rank.

        Raises:
            TypeError: it is none that can be sent.
        """
        own = torch.frombuffer(bytearray(_packed(value)), dtype=torch.uint8)
        sizes = self.gather_tensor(torch.tensor([len(own)])).flatten().tolist()
        padded = own.new_zeros(max(sizes))
        padded[: len(own)] = own
        found = zip(self.gather_tensor(padded), sizes, strict=True)
        return [_unpacked(each[:size].numpy().tobytes()) for each, size in found]

    def gather_tensor(self, value: Tensor) -> Tensor:
        """`[count, ...]`: every process's tensor, by rank."""
        found = value.new_empty(self.count, *value.shape)
        if value.numel():  # as bytes: gloo has no bool, int16 or bfloat16
            own = value.detach().contiguous().view(-1).view(torch.uint8)
            with _others_there():
                self._gather_into(found.view(-1).view(torch.uint8), own)
        return found


def _packed(value: Any) -> bytes:
    """The value as safetensors, of which one tensor is the JSON of what is no tensor."""
    tensors: dict[str, Tensor] = {}
    skeleton = json.dumps(pack(value, tensors)).encode()
    tensors[_SKELETON] = torch.frombuffer(bytearray(skeleton), dtype=torch.uint8)
    return save_tensors(tensors)


def _unpacked(message: bytes) -> Any:
    tensors = load_tensors(message)
    return unpack(json.loads(tensors.pop(_SKELETON).numpy().tobytes()), tensors)


@contextmanager
def _others_there() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # each way has its own words for a closed connection
        raise ProcessLostError(
            "another process of this run has ended; its own message says why"
        ) from error


def check_division(num_shards: int, num_processes: int) -> None:
    """Raises ValueError where the processes cannot carry the same number of shards each."""
    if num_shards % num_processes:
        raise ValueError(
            f"num_shards is {num_shards} and there are {num_processes} processes: each carries the same "
            f"number of shards; set --num-shards to a multiple of {num_processes}"
        )


@dataclass(frozen=True)
class Shards:
    """The parts of a run: of its boards and minibatches. What is computed depends on their number alone.

    Attributes:
        count: how many there are.
        processes: that carry them, each the same number.

    Raises:
        ValueError: the processes cannot carry the same number of shards each.
    """

    count: int = 1
    processes: Processes = field(default_factory=Processes)

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
