"""What the processes of a run tell each other: everything is gathered in the order of their ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from algorithms.processes.packing import bytes_of, packed, unpacked
from algorithms.processes.shared_memory import SharedMemory, share_memory


class ProcessLostError(RuntimeError):
    """Another process of the run has ended, and this one cannot go on without it."""


@contextmanager
def _others_there() -> Iterator[None]:
    try:
        yield
    except (
        RuntimeError,
        ConnectionError,
    ) as error:  # each way has its own words for a closed connection
        raise ProcessLostError(
            "another process of this run has ended; its own message says why"
        ) from error


class Processes(Protocol):
    """The processes that carry a run; every method is called by all of them, in the same order.

    Attributes:
        rank: which one this is; 0 writes the record.
        count: how many there are.
    """

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        ...

    @property
    def count(self) -> int:
        """Number of processes."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, by rank; values are plain data, arrays and CPU tensors."""
        ...

    def gather_tensor(self, value: Tensor) -> Tensor:
        """`[count, ...]`: every process's tensor, by rank; all have one shape."""
        ...

    def any(self, flag: bool) -> bool:
        """Whether a process says True."""
        ...


class Alone:
    """The one process of a run."""

    rank, count = 0, 1

    def gather(self, value: Any) -> list[Any]:
        """The value."""
        return [value]

    def gather_tensor(self, value: Tensor) -> Tensor:
        """`[1, ...]`: the tensor with an axis before its own."""
        return value.unsqueeze(0)

    def any(self, flag: bool) -> bool:
        """The flag."""
        return flag


class Group:
    """Several processes, by torch.distributed, whose group is there (`joined_processes`).

    What lies in the host's memory goes through shared memory where all processes are on one machine.
    """

    def __init__(self) -> None:
        import torch.distributed as dist

        is_renamed = hasattr(dist, "all_gather_single")  # torch then warns of the older name
        self._gather_into = dist.all_gather_single if is_renamed else dist.all_gather_into_tensor
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.memory: SharedMemory | None = None  # which is asked for by way of torch.distributed
        self.memory = share_memory(self.rank, self.gather)

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, by rank."""
        parts = packed(value)
        if self.memory is not None:
            with _others_there():
                messages = self.memory.exchange(parts)
            return [unpacked(each) for each in messages]
        own = torch.frombuffer(bytearray().join(parts), dtype=torch.uint8)
        sizes = self.gather_tensor(torch.tensor([len(own)])).flatten().tolist()
        padded = own.new_empty(max(sizes))
        padded[: len(own)] = own
        found = zip(self.gather_tensor(padded), sizes, strict=True)
        return [unpacked(bytes_of(each[:size])) for each, size in found]

    def gather_tensor(self, value: Tensor) -> Tensor:
        """`[count, ...]`: every process's tensor, by rank."""
        found = value.new_empty(self.count, *value.shape)
        with _others_there():
            if self.memory is None or value.device.type != "cpu":
                self._gather_into(found.view(-1), value.reshape(-1))
                return found
            messages = self.memory.exchange([bytes_of(value)])
        for place, message in zip(found, messages, strict=True):
            bytes_of(place)[:] = message
        return found

    def any(self, flag: bool) -> bool:
        """Whether a process says True."""
        return bool(self.gather_tensor(torch.tensor([flag], dtype=torch.uint8)).any())

    def close(self) -> None:
        """Gives the shared memory back."""
        if self.memory is not None:
            self.memory.close()


@contextmanager
def joined_processes() -> Iterator[Processes]:
    """The processes that `torchrun` or `--num-processes` started, joined; `Alone` where none did.

    Where there is CUDA, each process computes on the device of its local rank.

    Raises:
        RuntimeError: the others did not come.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Alone()
        return
    import torch.distributed as dist

    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend)
    try:
        group = Group()
        try:
            yield group
        finally:
            group.close()
    finally:
        dist.destroy_process_group()
