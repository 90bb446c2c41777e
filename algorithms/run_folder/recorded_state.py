"""The state in a checkpoint, made that of the run that takes it, or refused, before anything of it is used."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from algorithms.run_folder.atomic_files import cut
from algorithms.run_folder.checkpoint import completed, say_defaults

NEEDED = frozenset(
    {
        "optimizer",
        "progress.update",
        "progress.plies",
        "progress.scored_moves",
        "progress.start_regret_cp",
    }
)
"""What no default stands for in any run: the rest of it would be another one, or its record could not be written on."""

EMPTY_OPTIMIZER: dict[str, Any] = {"state": {}, "param_groups": []}
"""What is compared of an optimizer's state: the rest is there after the first step alone (`check_optimizer`)."""

_SCALARS = (bool, int, float, str)


def not_ours(path: Path, error: Exception) -> ValueError:
    """The error of a checkpoint whose state the run cannot take."""
    return ValueError(
        f"{path} holds a state that is not of this run ({cut(error)}): another version wrote it, or "
        "somebody changed it. Use another checkpoint, or start a new run"
    )


def state_of_run(
    path: Path,
    state: dict[str, Any],
    own: dict[str, Any],
    *,
    needed: Collection[str],
    trained: Sequence[torch.nn.Parameter],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The state of a checkpoint with the entries that this run's state has.

    An entry that it lacks, because an older version wrote it, is taken from `own`, and said.

    Args:
        path: the checkpoint.
        state: nested values out of it.
        own: the same of this run, before it goes on.
        needed: dotted names for which nothing may be taken, beside `NEEDED`.
        trained: the parameters of the optimizer.
        say: shows which entries were taken.

    Raises:
        ValueError: a needed entry is missing, one is not known here, or one is of another type; the message names
            it and the checkpoint.
    """
    own = {**own, "optimizer": EMPTY_OPTIMIZER}
    taken, lacking = completed(state, own, NEEDED | set(needed))
    try:
        check_state(taken, own)
        check_optimizer(taken["optimizer"]["state"], trained)
    except ValueError as error:
        raise not_ours(path, error) from error
    say_defaults(path, lacking, say)
    return taken


def check_state(state: Any, own: Any, where: str = "state") -> None:
    """Raises ValueError where `state` has other entries or types than `own`, with the path of the first one.

    Lengths of arrays, values, and what `own` leaves empty are not looked at: who takes them does.

    Args:
        state: nested values out of a checkpoint.
        own: the same of this run, before it goes on.
        where: what messages call it.
    """
    if isinstance(own, Mapping) and own:
        _require(isinstance(state, dict), state, own, where)
        if state.keys() != own.keys():
            missing = sorted(own.keys() - state.keys())
            extra = sorted(map(str, state.keys() - own.keys()))
            raise ValueError(
                f"{where} has no {missing}" if missing else f"{where} has {extra} besides"
            )
        for name, value in own.items():
            check_state(state[name], value, f"{where}/{name}")
    elif isinstance(own, list | tuple) and own:
        _require(type(state) is type(own) and len(state) == len(own), state, own, where)
        for number, value in enumerate(own):
            check_state(state[number], value, f"{where}/{number}")
    elif isinstance(own, np.ndarray | torch.Tensor):
        alike = type(state) is type(own) and (state.dtype, state.ndim) == (own.dtype, own.ndim)
        _require(alike, state, own, where)
    elif own is None:  # not known yet, such as the first regret
        _require(state is None or isinstance(state, _SCALARS), state, own, where)
    elif isinstance(own, float):
        _require(isinstance(state, int | float) and not isinstance(state, bool), state, own, where)
    else:
        _require(type(state) is type(own), state, own, where)


def check_optimizer(state: Any, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Raises ValueError where the per-parameter entries of an optimizer's state are not of these parameters."""
    for number, entry in state.items():
        known = isinstance(number, int) and 0 <= number < len(parameters)
        _require(known and isinstance(entry, dict), number, 0, "optimizer/state")
        for name, value in entry.items():
            where = f"optimizer/state/{number}/{name}"
            _require(isinstance(value, torch.Tensor), value, parameters[number], where)
            if value.ndim and value.shape != parameters[number].shape:
                raise ValueError(
                    f"{where} has the shape {[*value.shape]}, expected {[*parameters[number].shape]}"
                )


def check_temperature(temperature: float) -> None:
    """Raises ValueError where a policy cannot sample at this temperature."""
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature is {temperature!r}, expected a finite number above 0")


def _require(holds: bool, state: Any, own: Any, where: str) -> None:
    if not holds:
        raise ValueError(f"{where} is {_shown(state)}, expected {_shown(own)}")


def _shown(value: Any) -> str:
    """The kind of a value, with what decides about it; nothing of its content but names."""
    if isinstance(value, np.ndarray | torch.Tensor):
        return f"{value.dtype} of {value.ndim} dimensions"
    if isinstance(value, dict):
        return f"a dict with {len(value)} entries"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"
