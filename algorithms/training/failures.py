"""What a run's settings cause names these settings: too little memory, and steps that are not finite."""

from __future__ import annotations

import dataclasses
import errno
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from algorithms.config.changes import Setting, settings_of
from algorithms.updates.learner import NonFiniteError

Run = TypeVar("Run", bound=Callable[..., Any])

_SIZES = (
    "policy.channels", "policy.blocks", "policy.head_dim", "optimizer.minibatch_size", "rollout.num_envs",
    "rollout.num_plies", "algorithm.group_size", "env.num_engines", "labels.num_engines", "labels.shard_size",
    "num_threads", "env.num_threads",
)  # fmt: skip
"""Settings that decide what a run needs of the machine."""

_FULL = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE)


def settings_named(run: Run) -> Run:
    """A function of a run's configuration, whose errors name the settings that cause them, with their values.

    Args:
        run: given the configuration of `chess-lab train` or `pretrain`, and what else it takes.

    Raises:
        NonFiniteError: several steps in a row were not finite.
        RuntimeError: memory, threads or processes do not suffice.
    """

    @functools.wraps(run)
    def named(config: Any, *others: Any, **by_name: Any) -> Any:
        try:
            return run(config, *others, **by_name)
        except NonFiniteError as error:
            raise NonFiniteError(f"{error}. {_advice(config)}") from error
        except (MemoryError, RuntimeError, OSError) as error:
            if not _too_little(error):
                raise
            values = {each.name: each.value for each in settings_of(config)}
            # The dimensions that hold, and not None where the size decides.
            values |= {f"policy.{k}": v for k, v in config.policy.dimensions._asdict().items()}
            sizes = ", ".join(
                f"{name} {values[name]:,}" for name in _SIZES if values.get(name) is not None
            )
            raise RuntimeError(
                f"{_machine(error)} for this run, whose needs depend on {sizes}: lower what is largest, or end other "
                "programs"
            ) from error

    return cast(Run, named)


def _too_little(error: BaseException) -> bool:
    """Whether the error says that memory, threads or processes do not suffice."""
    said = ("DefaultCPUAllocator", "can't start new thread")  # these have no type of their own
    return (
        isinstance(error, (MemoryError, torch.OutOfMemoryError))
        or (isinstance(error, OSError) and error.errno in _FULL)
        or any(each in str(error) for each in said)
    )


def _machine(error: BaseException) -> str:
    if not isinstance(error, torch.OutOfMemoryError):
        return f"this machine has too little ({' '.join(str(error).split())[-160:] or 'memory'})"
    total, most = torch.cuda.mem_get_info()[1], torch.cuda.max_memory_allocated()
    return (
        f"{torch.cuda.get_device_name()} has {total / 2**30:.1f} GiB, {most / 2**30:.1f} GiB were in use, "
        "too little"
    )


def _advice(config: Any) -> str:
    """What to change where steps are not finite: the settings far from their defaults, or the usual ones."""
    far = [f"{each.name} is {each.value:g}" for each in settings_of(config) if _far(each)]
    if far:
        return f"Far from its usual value: {', '.join(far)}"
    settled = config.optimizer.settled(config.policy)
    rate, norm = settled.full_learning_rate, settled.max_grad_norm
    return (
        f"Lower optimizer.learning_rate ({rate:g}) or optimizer.max_grad_norm ({norm:g}), raise the temperature if "
        "it is far below 1, and check the rewards for NaN"
    )


def _far(setting: Setting) -> bool:
    """Whether a number is more than 100 times as large as its default, or a temperature as small."""
    value = setting.value
    if not isinstance(value, float) or not math.isfinite(value):
        return False
    default = next(f.default for f in dataclasses.fields(setting.owner) if f.name == setting.field)
    if setting.field in ("learning_rate", "lr_final"):
        default = 1e-2
    usual = default if isinstance(default, (int, float)) and default else 1.0
    return abs(value) > 100 * usual or (setting.field == "temperature" and value < usual / 100)
