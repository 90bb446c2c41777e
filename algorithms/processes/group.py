"""What the processes of a run tell each other: everything is gathered in the order of their ranks."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor


class ProcessLostError(RuntimeError):
    """Another process of the run has ended, and this one cannot go on without it."""


@contextmanager
def _others_there() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # each backend has its own words for a closed connection
        raise ProcessLostError(
            "another process of this run has ended; its own message says why"
        ) from error


class _Pickler(pickle.Pickler):
    """Writes tensors of the CPU as arrays; torch's own way makes an archive of each."""

    def reducer_override(self, value: Any) -> Any:
        """How a tensor is made again: from its array."""
        is_plain = type(value) is Tensor and value.device.type == "cpu" and not value.requires_grad
        if is_plain and value.dtype != torch.bfloat16:  # which NumPy has not
            return torch.from_numpy, (value.numpy(),)
        return NotImplemented


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
    """Several processes, by torch.distributed, whose group is there (`joined_processes`)."""

    def __init__(self) -> None:
        import torch.distributed as dist

        self._dist = dist
        self.rank, self.count = dist.get_rank(), dist.get_world_size()

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, by rank."""
        written = io.BytesIO()
        _Pickler(written, protocol=5).dump(value)
        own = torch.frombuffer(written.getbuffer(), dtype=torch.uint8)
        sizes = self.gather_tensor(torch.tensor([len(own)])).flatten().tolist()
        padded = own.new_empty(max(sizes))
        padded[: len(own)] = own
        found = zip(self.gather_tensor(padded), sizes, strict=True)
        return [pickle.loads(each[:size].numpy().data) for each, size in found]

    def gather_tensor(self, value: Tensor) -> Tensor:
        """`[count, ...]`: every process's tensor, by rank."""
        found = value.new_empty(self.count * value.numel())
        with _others_there():
            self._dist.all_gather_into_tensor(found, value.reshape(-1))
        return found.view(self.count, *value.shape)

    def any(self, flag: bool) -> bool:
        """Whether a process says True."""
        return bool(self.gather_tensor(torch.tensor([flag], dtype=torch.uint8)).any())


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
        yield Group()
    finally:
        dist.destroy_process_group()
