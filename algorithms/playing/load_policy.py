"""A trained policy from its files, ready to play."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from algorithms.training import config_file
from algorithms.training.initial_weights import read_weights
from algorithms.training.policy import PolicyConfig, PolicyNet, make_policy


def load_policy(source: str) -> PolicyNet:
    """The policy in `source`, in evaluation mode on the CPU.

    The network's settings are those of the run, or without a run's config.json what the shapes of
    the weights say.

    Args:
        source: a run folder (its newest intact checkpoint), a checkpoint folder, a .safetensors
            file, or the name of a shipped policy.

    Raises:
        ValueError: there is nothing to read, it is damaged, or it holds no policy of this network.
    """
    weights = read_weights(source)
    broken = [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise ValueError(
            f"{source!r} holds weights that are not finite ({broken[0]}): use another checkpoint"
        )
    run = _run_network(Path(source))
    config = _size_of(weights, source) if run is None else run.policy
    critic = any(name.startswith("value_head.") for name in weights)
    if run is not None and config.network is not None:  # whose weights have names of their own
        critic = run.critic
    policy = make_policy(config, critic=critic)
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        said = " ".join(str(error).split())
        raise ValueError(f"{source!r} holds another network than expected: {said}") from error
    return policy.eval()


def run_temperature(source: str) -> float | None:
    """The temperature that the run of `source` began to sample and learn at; None without a config.json.

    Args:
        source: as of `load_policy`.

    Raises:
        ValueError: the config.json cannot be read.
    """
    run = _run_network(Path(source))
    return None if run is None else run.temperature


def _size_of(weights: dict[str, Tensor], source: str) -> PolicyConfig:
    """The size of the network that has these weights, in float32.

    Raises:
        ValueError: they are of something else; the message names `source`.
    """
    blocks = sum(name.startswith("body.") and name.endswith(".first.weight") for name in weights)
    try:
        channels, head_dim = len(weights["stem.weight"]), len(weights["from_vector.weight"])
        return PolicyConfig(channels=channels, blocks=blocks, head_dim=head_dim)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{source!r} holds no policy of this project ({error}); a network of your own is read from its run "
            "folder, where config.json names it"
        ) from error


def _run_network(path: Path) -> config_file.RunNetwork | None:
    """The network of the run that `path` is or belongs to; None without a config.json."""
    if (path / "manifest.json").exists():
        path = path.resolve().parent.parent
    file = path / "config.json"
    return config_file.load_network(file) if file.exists() else None
