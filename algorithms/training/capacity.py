"""Whether the machine can carry a run, as far as the settings tell before anything is made."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from algorithms.config.run import TrainConfig
from algorithms.networks.build import make_policy, reads_move_facts
from algorithms.networks.device import usable_cores
from chess_env.move_facts import NUM_MOVE_FACTS
from chess_env.observation import NUM_PLANES

_GIB = 2**30
_FEW_MOVES = 20
"""Legal moves of a position, rather fewer than there are on average: what is counted is the least that is needed."""

_BOARD_BYTES = 4_000
"""Of one board of the vector environment: its mask, planes, legal moves and history."""

_MEMBER_BYTES = 30
"""Of one sample in a `RolloutBatch`: slot, action, log-probability, reward, score, two flags."""

_ENGINE_BYTES = 70 * 2**20
"""Of one Stockfish process, beside what all of them share."""

_REMEDIES = {
    "engines": "lower --env.num-engines",
    "network": "choose a smaller network (--policy.size, --policy.channels, --policy.blocks)",
    "boards": "lower --rollout.num-envs",
    "rollout": "lower --rollout.num-envs or --rollout.num-plies",
}


def check_capacity(config: TrainConfig, device: torch.device) -> None:
    """Raises ValueError, with the numbers and the remedy, where a run needs more memory than is free.

    Warns where there are more engines than cores. What a pass through the network takes is not counted:
    a run that is let through may still be too large.
    """
    engines, cores = config.env.num_engines, usable_cores()
    elsewhere = str(config.env.evaluator).startswith("ray:")  # which counts its cores itself
    if engines > max(2, cores) and not elsewhere:
        warnings.warn(
            f"env.num_engines is {engines} and {cores} cores are there: an engine computes on one core, and more "
            f"engines are not faster; set --env.num-engines to {cores}",
            stacklevel=2,
        )
    needed = least_bytes(config)
    on_host = device.type == "cpu"
    places = {"memory": free_bytes()}
    if not on_host:
        places["device memory"] = torch.cuda.mem_get_info(device)[0]
    for place, free in places.items():
        parts = {
            name: size
            for name, size in needed.items()
            if on_host or (name in ("boards", "engines")) == (place == "memory")
        }
        if free is not None and sum(parts.values()) > free:
            shown = ", ".join(f"{name} {size / _GIB:,.1f}" for name, size in parts.items())
            raise ValueError(
                f"this run needs at least {sum(parts.values()) / _GIB:,.1f} GiB of {place} ({shown}) and "
                f"{free / _GIB:,.1f} GiB are free: {_REMEDIES[max(parts, key=lambda name: parts[name])]}"
            )


def least_bytes(config: TrainConfig) -> dict[str, int]:
    """{part of a run: bytes that it needs at least}: `network`, `boards`, `rollout` and `engines`."""
    rollout, needs = config.rollout, config.algorithm.needs()
    moves = _FEW_MOVES * (2 + 4 + (NUM_MOVE_FACTS if reads_move_facts(config.policy) else 0))
    engines = config.env.num_engines if str(config.env.evaluator).startswith("stockfish") else 0
    samples = _FEW_MOVES if needs.all_moves else getattr(config.algorithm, "group_size", 1)
    state = NUM_PLANES * 64 + moves + samples * _MEMBER_BYTES
    return {
        "network": _network_bytes(config),
        "boards": rollout.num_envs * _BOARD_BYTES,
        "rollout": rollout.num_envs * rollout.num_plies * state,
        "engines": engines * _ENGINE_BYTES,
    }


def _network_bytes(config: TrainConfig) -> int:
    """Of weights, their gradient and the optimizer's two moments; 0 for a network of one's own, which is not built."""
    if config.policy.is_custom:
        return 0
    # Shapes without numbers.
    with torch.random.fork_rng(devices=[]), torch.device("meta"), _Undrawn():
        policy = make_policy(config.policy, critic=config.algorithm.needs().critic is not None)
    return 4 * 4 * policy.num_parameters


class _Undrawn(TorchFunctionMode):
    """Draws no normal numbers: for shapes without numbers torch would import its compiler to do so."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function in (torch.nn.init.normal_, torch.Tensor.normal_):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def free_bytes() -> int | None:
    """Memory that is free or can be freed, within the limit of a container; None where the system does not say."""
    found = [1024 * kilobytes for kilobytes in _numbers(Path("/proc/meminfo"), "MemAvailable:")]
    group = Path("/sys/fs/cgroup")
    for limit in _numbers(group / "memory.max", ""):  # "max" where there is none
        # Pages of files are given up when memory is short.
        found += [limit - used for used in _numbers(group / "memory.stat", "anon ")]
    return min(found, default=None)


def _numbers(path: Path, start: str) -> list[int]:
    """The numbers behind `start` in the lines of a file of the kernel; none where there is no such file."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    found = [line.removeprefix(start).split()[:1] for line in lines if line.startswith(start)]
    return [int(words[0]) for words in found if words and words[0].isdecimal()]
