"""A trained policy from its files, ready to play, and the threads it plays with."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from algorithms.config import files as config_file
from algorithms.config.foreign import NO_TRUST, Trust
from algorithms.networks.build import (
    config_of,
    make_policy,
    other_planes,
    read_weights,
    usual_torch,
)
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import DEFAULT_PRECISION
from algorithms.run_folder.atomic_files import cut
from chess_env.threads import usable_cores


@usual_torch()
def load_policy(source: str, trust: Trust = NO_TRUST) -> PolicyNet:
    """The policy in `source`, in evaluation mode on the CPU.

    The network's settings are those of the run, or without a run's config.json what the shapes of
    the weights say.

    Args:
        source: a run folder (its newest intact checkpoint), a checkpoint folder, a .safetensors
            file, or the name of a shipped policy.
        trust: whether the run may name a network of a user's own, whose code is then imported.

    Raises:
        ValueError: there is nothing to read, it is damaged, or it holds no policy of this network.
        UntrustedError: it names such a network and `trust` does not allow it.
    """
    weights = read_weights(source)
    file = config_of_run(Path(source))
    run = None if file is None else config_file.load_network(file, trust)
    config = config_of(weights, source) if run is None else run.policy
    critic = any(name.startswith("value_head.") for name in weights)
    if run is not None and config.is_custom:  # whose weights have names of their own
        critic = run.critic
    precision = DEFAULT_PRECISION if run is None else run.precision
    try:
        for name, tensor in weights.items():
            if not torch.isfinite(tensor).all():
                raise ValueError(
                    f"{source!r} holds weights that are not finite ({cut(name)}): use another checkpoint"
                )
        policy = make_policy(config, critic=critic, precision=precision)
        policy.load_state_dict(weights)
    except RuntimeError as error:
        why = other_planes(weights, config) or f"({cut(' '.join(str(error).split()))})"
        raise ValueError(f"{source!r} holds another network than expected {why}") from error
    return policy.eval()


def run_temperature(source: str) -> float | None:
    """The temperature that the run of `source` began to sample and learn at; None without a config.json.

    Args:
        source: as of `load_policy`.

    Raises:
        ValueError: the config.json cannot be read.
    """
    file = config_of_run(Path(source))
    return None if file is None else config_file.load_temperature(file)


def config_of_run(path: Path) -> Path | None:
    """The config.json of the run that `path` is or belongs to; None without one.

    A checkpoint's is that of its run. A policy of `chess-lab pull` has its own beside its manifest.
    """
    if (path / "manifest.json").exists() and not (path / "config.json").exists():
        path = path.resolve().parent.parent
    file = path / "config.json"
    return file if file.exists() else None


def threads_of(asked: int | None) -> int:
    """Number of threads: those asked for, or as many as there are idle cores, at least 1.

    On two idle cores two threads take a third to nearly a half off the time of a match. Where another process has one
    of the cores they wait for each other, and a match takes up to five times as long as with one; so cores that were
    busy in the last minute are left alone.

    Raises:
        ValueError: fewer than 1 were asked for.
    """
    if asked is not None:
        if asked < 1:
            raise ValueError(f"--num-threads is {asked}: expected at least 1")
        return asked
    return max(1, usable_cores() - round(os.getloadavg()[0]))
