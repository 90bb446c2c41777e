"""Which device a run computes on."""

from __future__ import annotations

import torch


def choose_device(name: str) -> torch.device:
    """The device that "auto", "cpu" or "cuda" means here; ValueError where CUDA is absent."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device is 'cuda' but torch sees no CUDA device (`chess-lab check` says more): "
            "use --device auto or --device cpu"
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
