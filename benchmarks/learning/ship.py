"""A policy that comes with the project: its weights, and their SHA-256 beside them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from algorithms.networks.build import SHIPPED


def ship(weights: Path, name: str, folder: Path = SHIPPED) -> Path:
    """The file NAME.safetensors in `folder`, a copy of `weights`; its SHA-256 is written beside it.

    Args:
        weights: a .safetensors file, such as a checkpoint's model.safetensors.
        name: of the policy from then on.
        folder: of shipped policies.
    """
    folder.mkdir(parents=True, exist_ok=True)
    raw, target = weights.read_bytes(), folder / f"{name}.safetensors"
    target.write_bytes(raw)
    digest = hashlib.sha256(raw).hexdigest()
    target.with_suffix(".sha256").write_text(f"{digest}  {target.name}\n", encoding="utf-8")
    return target
