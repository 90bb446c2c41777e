"""Values as bytes, for other processes: plain data, arrays and tensors."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any, TypeAlias

import torch
from torch import Tensor

Part: TypeAlias = bytes | memoryview

_NUMBER = struct.Struct("=q")


class _Pickler(pickle.Pickler):
    """Writes tensors of the CPU as arrays; torch's own way makes an archive of each."""

    def reducer_override(self, value: Any) -> Any:
        """How a tensor is made again: from its array."""
        is_plain = type(value) is Tensor and value.device.type == "cpu" and not value.requires_grad
        if is_plain and value.dtype != torch.bfloat16:  # which NumPy has not
            return torch.from_numpy, (value.numpy(),)
        return NotImplemented


def packed(value: Any) -> list[Part]:
    """The parts of a message that holds a value; the arrays are views of its own memory, not copies."""
    buffers: list[pickle.PickleBuffer] = []
    written = io.BytesIO()
    _Pickler(written, protocol=5, buffer_callback=buffers.append).dump(value)
    raw = [buffer.raw() for buffer in buffers]
    parts: list[Part] = [written.getbuffer(), *raw]
    sizes = [len(parts), *map(len, parts)]
    return [b"".join(map(_NUMBER.pack, sizes)), *parts]


def unpacked(message: memoryview) -> Any:
    """The value in a message (`packed`, its parts one behind the other), in memory of its own."""
    (count,) = _NUMBER.unpack_from(message)
    start = (1 + count) * _NUMBER.size
    parts = []
    for number in range(count):
        (size,) = _NUMBER.unpack_from(message, (1 + number) * _NUMBER.size)
        parts.append(message[start : start + size])
        start += size
    return pickle.loads(parts[0], buffers=[bytearray(part) for part in parts[1:]])


def bytes_of(value: Tensor) -> memoryview:
    """The bytes of a tensor of the CPU: its own memory where it is contiguous, else those of a copy."""
    return value.detach().reshape(-1).view(torch.uint8).numpy().data
