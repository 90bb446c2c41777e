"""Which device a run computes on."""

from __future__ import annotations

import torch

DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """The device that "auto", "cpu" or "cuda" means here.

    Raises:
        ValueError: another name, or "cuda" where there is none.
    """
    if name not in DEVICES:  # such as "cuda:1" or "tpu": another device than the one asked for
        raise ValueError(f"device is {name!r}: expected one of {', '.join(DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device is 'cuda' but torch sees no CUDA device (`chess-lab check` says more): "
            "use --device auto or --device cpu"
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
