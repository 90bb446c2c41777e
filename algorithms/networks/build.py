"""Networks made from their settings, and the layers of them that a run leaves as they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from algorithms.core.checks import require_choice
from algorithms.networks.custom import CustomPolicy
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.residual import ResidualPolicy
from algorithms.networks.settings import DEFAULT_PRECISION, NetworkConfig, PrecisionConfig


def build_policy(
    config: NetworkConfig,
    *,
    seed: int,
    device: torch.device,
    critic: bool = False,
    precision: PrecisionConfig = DEFAULT_PRECISION,
) -> PolicyNet:
    """A freshly initialised network on `device`.

    The same seed gives the same weights on every device, and the same policy with and without a
    critic. The global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = make_policy(config, critic=critic, precision=precision)
    return policy.to(device)


def make_policy(
    config: NetworkConfig,
    *,
    critic: bool = False,
    precision: PrecisionConfig = DEFAULT_PRECISION,
) -> PolicyNet:
    """The network that the settings name, with weights drawn from torch's global generator.

    Raises:
        ValueError: `config.network` names nothing that is a network.
    """
    if config.network is None:
        return ResidualPolicy(config, critic=critic, precision=precision)
    return CustomPolicy(config, critic=critic, precision=precision)


def trained_parameters(network: nn.Module, frozen_layers: Sequence[str]) -> list[nn.Parameter]:
    """The parameters that an optimizer may move; the others no longer ask for a gradient.

    Args:
        network: what is trained.
        frozen_layers: names of modules or parameters; what lies inside a module is frozen with it.

    Raises:
        ValueError: a name that the network does not have, or nothing is left to train.
    """
    named = dict(network.named_parameters())
    known = {
        ".".join(name.split(".")[:end])
        for name in named
        for end in range(1, 1 + name.count(".") + 1)
    }
    for layer in frozen_layers:
        if layer not in known:  # the list of all is long: blocks, their layers, weights and biases
            near = sorted(name for name in known if name.count(".") < 2)
            require_choice("one of optimizer.frozen_layers", layer, near)
    frozen = {
        name
        for name in named
        for layer in frozen_layers
        if name == layer or name.startswith(f"{layer}.")
    }
    for name in frozen:
        named[name].requires_grad_(False)
    trained = [parameter for name, parameter in named.items() if name not in frozen]
    if not trained:
        raise ValueError(
            f"optimizer.frozen_layers freezes all {len(named)} parameters: leave one layer out"
        )
    return trained
