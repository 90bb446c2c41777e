"""Checks of what a caller hands to the vector environment, before any board or generator is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

_INT64 = np.dtype(np.int64)


def checked_reset_options(
    options: dict[str, Any] | None, num_envs: int, started: bool
) -> tuple[NDArray[np.int64], Sequence[str] | None]:
    """(int64 [n] the boards to restart, their n FENs or None).

    Raises:
        ValueError: an unknown option, a mask that is not bool [N], or another number of FENs than boards.
    """
    options = dict(options or {})
    mask = options.pop("reset_mask", None)
    fens = options.pop("fens", None)
    if options:
        raise ValueError(
            f"reset options {sorted(options)} are unknown: expected 'fens' or 'reset_mask'"
        )
    index = np.arange(num_envs)
    if mask is not None:
        mask = np.asarray(mask)
        if mask.shape != (num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"reset_mask is {mask!r}: expected bool [{num_envs}] with at least one True"
            )
        if not started and not mask.all():
            raise ValueError("reset_mask restarts some boards: call reset() on all of them first")
        index = np.flatnonzero(mask)
    is_list = isinstance(fens, Sequence | np.ndarray) and not isinstance(fens, str)
    if fens is not None and (not is_list or len(fens) != len(index)):
        count = f"{len(fens)} FENs" if is_list else repr(fens)[:200]
        raise ValueError(
            f"reset option 'fens' holds {count}: expected a list of {len(index)}, one FEN per board"
        )
    return index, fens


def checked_seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """One seed per board: s, s + 1, ... for a number; None keeps the generator a board has.

    Raises:
        ValueError: a sequence of another length.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int | np.integer):
        return [int(seed) + row for row in range(num_envs)]
    if not isinstance(seed, Sequence | np.ndarray) or isinstance(seed, str):
        raise ValueError(f"seed is {seed!r}: expected a whole number or {num_envs} of them")
    if len(seed) != num_envs:
        raise ValueError(
            f"{len(seed)} seeds for {num_envs} boards: give one number or one seed per board"
        )
    return list(seed)


def checked_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """The mode, also from its name in either spelling ("SAME_STEP", "SameStep").

    Raises:
        ValueError: no mode of that name.
    """
    for known in AutoresetMode:
        if mode in (known, known.name, known.value):
            return known
    raise ValueError(
        f"autoreset_mode is {mode!r}: expected one of {', '.join(m.name for m in AutoresetMode)}"
    )


def checked_actions(actions: Any, num_envs: int) -> NDArray[np.int64]:
    """int64 [N], a copy; whether the numbers are legal actions is looked at board by board.

    Raises:
        ValueError: not whole numbers of shape [N].
    """
    array = np.asarray(actions)
    if array.shape != (num_envs,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"actions are {array.dtype} {list(array.shape)}: expected whole numbers [{num_envs}]"
        )
    return array.astype(_INT64)


def checked_array(state: Mapping[str, Any], name: str, like: NDArray[np.generic]) -> NDArray[Any]:
    """The array `name` of a state, of the dtype and shape of `like`.

    Raises:
        ValueError: it is missing or another.
    """
    found = state.get(name)
    shown = f"a {type(found).__name__}"
    if isinstance(found, np.ndarray):
        if found.dtype == like.dtype and found.shape == like.shape:
            return found
        if found.dtype == like.dtype and found.ndim and found.shape[1:] == like.shape[1:]:
            raise ValueError(f"the state holds {len(found)} boards, this environment {len(like)}")
        shown = f"{found.dtype} {[*found.shape]}"
    raise ValueError(f"{name} of the state is {shown}, expected {like.dtype} {[*like.shape]}")
