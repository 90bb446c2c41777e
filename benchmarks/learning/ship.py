"""A policy that comes with the project: its weights, and their SHA-256 beside them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from safetensors.torch import load, save

from algorithms.networks.build import SHIPPED


def ship(weights: Path, name: str, folder: Path = SHIPPED, *, half: bool = False) -> Path:
    """The file NAME.safetensors in `folder`, a copy of `weights`; its SHA-256 is written beside it.

    Args:
        weights: a .safetensors file, such as a checkpoint's model.safetensors.
        name: of the policy from then on.
        folder: of shipped policies.
        half: in 16 bits a number, half the size; a network computes with them in 32 all the same.
    """
    folder.mkdir(parents=True, exist_ok=True)
    raw, target = weights.read_bytes(), folder / f"{name}.safetensors"
    if half:
        raw = save({key: tensor.half() for key, tensor in load(raw).items()})
    target.write_bytes(raw)
    digest = hashlib.sha256(raw).hexdigest()
    target.with_suffix(".sha256").write_text(f"{digest}  {target.name}\n", encoding="utf-8")
    return target
