"""Which device a run computes on."""

from __future__ import annotations

import os

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


def usable_cores() -> int:
    """Cores that this process may run on."""
    can_tell = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if can_tell else os.cpu_count() or 1


def out_of_memory(device: torch.device, *, minibatch_size: int, num_envs: int) -> str:
    """The error where a CUDA device has too little memory, with its numbers and the remedy.

    Args:
        device: where the network computes.
        minibatch_size: states of one optimizer step.
        num_envs: boards of one ply.
    """
    gib = 2**30
    total = torch.cuda.mem_get_info(device)[1] / gib
    most = torch.cuda.max_memory_allocated(device) / gib
    return (
        f"{torch.cuda.get_device_name(device)} has {total:.1f} GiB and this run, which needed up to {most:.1f} "
        f"GiB so far, does not fit with optimizer.minibatch_size {minibatch_size} and rollout.num_envs "
        f"{num_envs}: lower the first (it decides the memory of an update), then the second, or end other "
        "programs on the device"
    )
