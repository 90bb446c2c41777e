"""Nested values as JSON and tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def plain(tensor: Tensor) -> Tensor:
    """The tensor on the CPU, of the same shape, in memory of its own: safetensors refuses what shares memory."""
    return tensor.detach().cpu().contiguous().clone()


def pack(value: Any, tensors: dict[str, Tensor], where: str = "") -> Any:
    """JSON skeleton of nested values; tensors and arrays move to `tensors` under their path.

    Raises:
        TypeError: a value is no number, text, tensor or array; the message names its path.
    """
    if isinstance(value, Tensor | np.ndarray):
        if isinstance(value, np.ndarray) and value.dtype.kind not in "biuf":
            raise TypeError(f"checkpoint state {where!r} has dtype {value.dtype}: store numbers")
        if isinstance(value, Tensor):
            tensors[where] = plain(value)
            return {"$tensor": where}
        # The reshape gives back the shape of a 0-d array, which ascontiguousarray makes 1-d.
        tensors[where] = torch.from_numpy(np.ascontiguousarray(value)).reshape(value.shape).clone()
        return {"$array": where}
    if isinstance(value, dict):
        items = [[k, pack(v, tensors, f"{where}/{k}")] for k, v in value.items()]
        return {"$dict": items}
    if isinstance(value, list | tuple):
        packed = [pack(v, tensors, f"{where}/{i}") for i, v in enumerate(value)]
        return {"$tuple": packed} if isinstance(value, tuple) else packed
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"checkpoint state {where!r} is a {type(value).__name__}: store plain values")


def unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The nested values that `pack` took apart.

    Raises:
        ValueError, KeyError, TypeError: it is no skeleton of `pack`, or a tensor is missing.
    """
    if isinstance(value, list):
        return [unpack(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "$dict":
        return {k: unpack(v, tensors) for k, v in content}
    if kind == "$tuple":
        return tuple(unpack(v, tensors) for v in content)
    tensor = tensors[content]
    return tensor.numpy() if kind == "$array" else tensor
